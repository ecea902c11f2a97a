package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-stream/lockstep/framework"
)

func positionsCommand(log *slog.Logger) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "positions --sink DSN [--pipeline NAME] [--json]",
		Short: "List the saved positions: the next offset to read, by partition",
		Long: `List what the sink has saved for each pipeline, topic and partition: the next
offset to read, and the counts of records that were saved with it. Running
pipelines are not disturbed.

READ = PASSED + FILTERED + SKIPPED + DEAD. PENDING means that a save is durable
and is not yet known to be visible in full; the partition's owner, or the next
one, sees to it.`,
		Args: cobra.NoArgs,
	}
	dsn := sinkFlag(cmd)
	pipeline := cmd.Flags().String("pipeline", "", "only this pipeline (default all)")
	asJSON := cmd.Flags().Bool("json", false, "one JSON object a line instead of a table")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		db, err := parseSink(*dsn, log)
		if err != nil {
			return err
		}
		sink, err := db.open(cmd.Context())
		if err != nil {
			return failed(err)
		}
		defer sink.Close(cmd.Context())
		stored, err := sink.Positions(cmd.Context(), *pipeline)
		if err != nil {
			return failed(err)
		}
		write := writeTable
		if *asJSON {
			write = writeJSON
		}
		return failed(write(cmd.OutOrStdout(), stored))
	}
	return cmd
}

func writeTable(out io.Writer, stored []framework.StoredPosition) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PIPELINE\tTOPIC\tPARTITION\tNEXT OFFSET\tREAD\tPASSED\tFILTERED\tSKIPPED\tDEAD\tSAVED\tOWNER\tSTATE")
	for _, p := range stored {
		c, err := framework.DecodeCounters(p.Lane)
		if err != nil {
			return fmt.Errorf("pipeline %q: %s: %w", p.Pipeline, p.TopicPartition, err)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n",
			p.Pipeline, p.Topic, p.Partition, p.Position.Offset,
			c.Read, c.Passed, c.Filtered, c.Skipped, c.DeadLettered, savedAt(p), orDash(p.Owner), state(p))
	}
	return w.Flush()
}

func savedAt(p framework.StoredPosition) string {
	if p.SavedAt.IsZero() {
		return "never"
	}
	return p.SavedAt.UTC().Format(time.RFC3339)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func state(p framework.StoredPosition) string {
	if p.Pending {
		return "pending"
	}
	return "applied"
}

// line is a position in JSON.
type line struct {
	Pipeline   string             `json:"pipeline"`
	Topic      string             `json:"topic"`
	Partition  int32              `json:"partition"`
	NextOffset int64              `json:"next_offset"`
	Counters   framework.Counters `json:"counters"`
	SavedAt    *time.Time         `json:"saved_at"` // null: never
	Owner      string             `json:"owner"`
	Pending    bool               `json:"pending"`
}

func writeJSON(out io.Writer, stored []framework.StoredPosition) error {
	e := json.NewEncoder(out)
	for _, p := range stored {
		c, err := framework.DecodeCounters(p.Lane)
		if err != nil {
			return fmt.Errorf("pipeline %q: %s: %w", p.Pipeline, p.TopicPartition, err)
		}
		l := line{p.Pipeline, p.Topic, p.Partition, p.Position.Offset, c, nil, p.Owner, p.Pending}
		if !p.SavedAt.IsZero() {
			l.SavedAt = &p.SavedAt
		}
		if err := e.Encode(l); err != nil {
			return err
		}
	}
	return nil
}
