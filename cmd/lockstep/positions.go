package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
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
pipelines are not disturbed. Nothing stored is no error.

NEXT is the next offset to read. READ = PASSED + FILTERED + SKIPPED + DEAD.
LOST counts offsets that a start rule passed over, because the log had dropped
them. STATE pending means that a save is durable and is not yet known to be
visible in full; the partition's owner, or the next one, sees to it. OWNER is
left out where no partition has one.`,
		Args: noArguments,
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
		if len(stored) == 0 {
			fmt.Fprintln(cmd.ErrOrStderr(), "lockstep:", noneStored(*pipeline))
			return nil
		}
		write := writeTable
		if *asJSON {
			write = writeJSON
		}
		return failed(write(cmd.OutOrStdout(), stored))
	}
	return cmd
}

func noneStored(pipeline string) string {
	if pipeline == "" {
		return "no positions are stored"
	}
	return fmt.Sprintf("no positions of pipeline %q are stored; without --pipeline all are listed", pipeline)
}

// writeTable leaves out the owners where there are none: the table is wide
// enough for a terminal then.
func writeTable(out io.Writer, stored []framework.StoredPosition) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	owned := slices.ContainsFunc(stored, func(p framework.StoredPosition) bool { return p.Owner != "" })
	fmt.Fprint(w, "PIPELINE\tTOPIC\tPARTITION\tNEXT\tREAD\tPASSED\tFILTERED\tSKIPPED\tDEAD\tLOST\tSAVED\tSTATE")
	if owned {
		fmt.Fprint(w, "\tOWNER")
	}
	fmt.Fprintln(w)
	for _, p := range stored {
		c, err := framework.DecodeCounters(p.Lane)
		if err != nil {
			return fmt.Errorf("pipeline %q: %s: %w", p.Pipeline, p.TopicPartition, err)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s",
			p.Pipeline, p.Topic, p.Partition, p.Position.Offset,
			c.Read, c.Passed, c.Filtered, c.Skipped, c.DeadLettered, c.Lost, savedAt(p), state(p))
		if owned {
			fmt.Fprint(w, "\t", orDash(p.Owner))
		}
		fmt.Fprintln(w)
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
	Pipeline   string     `json:"pipeline"`
	Topic      string     `json:"topic"`
	Partition  int32      `json:"partition"`
	NextOffset int64      `json:"next_offset"`
	Counters   counters   `json:"counters"`
	SavedAt    *time.Time `json:"saved_at"` // null: never
	Owner      string     `json:"owner"`
	Pending    bool       `json:"pending"`
}

// counters are a [framework.Counters] in JSON: its fields, in its order.
type counters struct {
	Read         int64 `json:"read"`
	Passed       int64 `json:"passed"`
	Filtered     int64 `json:"filtered"`
	Skipped      int64 `json:"skipped"`
	DeadLettered int64 `json:"dead_lettered"`
	AlreadySaved int64 `json:"already_saved"`
	Lost         int64 `json:"lost"`
}

func writeJSON(out io.Writer, stored []framework.StoredPosition) error {
	e := json.NewEncoder(out)
	for _, p := range stored {
		c, err := framework.DecodeCounters(p.Lane)
		if err != nil {
			return fmt.Errorf("pipeline %q: %s: %w", p.Pipeline, p.TopicPartition, err)
		}
		l := line{p.Pipeline, p.Topic, p.Partition, p.Position.Offset, counters(c), nil, p.Owner, p.Pending}
		if !p.SavedAt.IsZero() {
			l.SavedAt = &p.SavedAt
		}
		if err := e.Encode(l); err != nil {
			return err
		}
	}
	return nil
}
