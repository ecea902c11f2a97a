package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-stream/lockstep/framework"
)

func positionsCommand(log *slog.Logger) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "positions --sink DSN [--pipeline NAME] [--output table|json]",
		Short: "List the saved positions: the next offset to read, by partition",
		Long: `List what the sink has saved for each pipeline, topic and partition: the next
offset to read, and the counts of records that were saved with it. Running
pipelines are not disturbed; on Cassandra one call reads the whole ledger, so
call it every ten seconds at most.

NEXT is the next offset to read. READ = PASSED + FILTERED + SKIPPED + DEAD.
LOST counts offsets that a start rule passed over, because the log had dropped
them. STATE pending means that a save is durable and is not yet known to be
visible in full; the partition's owner, or the next one, sees to it. OWNER is
left out where no partition has one.

` + exitCodes + `
A database in which nothing is stored is no error. A --pipeline that has no
positions is one (1), and the pipelines that have some are named.`,
		Example: `  lockstep positions --sink sqlite://app.db
  lockstep positions --sink cassandra://10.0.0.1/app --pipeline spending --output json`,
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
	}
	dsn, wait := sinkFlag(cmd), waitFlag(cmd)
	pipeline := cmd.Flags().String("pipeline", "", "only this pipeline (default all)")
	output := cmd.Flags().String("output", "table", "table, or json: one object a line")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		write, err := parseOutput(*output)
		if err != nil {
			return err
		}
		db, err := parseSink(*dsn, *wait, log)
		if err != nil {
			return err
		}
		stored, err := positions(cmd.Context(), db, *pipeline)
		if err != nil {
			return failed(err)
		}
		if len(stored) == 0 {
			fmt.Fprintln(cmd.ErrOrStderr(), "lockstep: no positions are stored")
			return nil
		}
		return failed(write(cmd.OutOrStdout(), stored))
	}
	return cmd
}

// parseOutput returns what writes positions in the form that --output names.
func parseOutput(form string) (func(io.Writer, []framework.StoredPosition) error, error) {
	switch form {
	case "table":
		return writeTable, nil
	case "json":
		return writeJSON, nil
	default:
		return nil, fmt.Errorf("%w: --output %q: give table or json", framework.ErrConfig, form)
	}
}

// positions reads the positions of a pipeline, which must have some, or of all if
// its name is empty.
func positions(ctx context.Context, db database, pipeline string) ([]framework.StoredPosition, error) {
	sink, err := db.open(ctx)
	if err != nil {
		return nil, err
	}
	defer sink.Close(ctx)
	stored, err := sink.Positions(ctx, pipeline)
	if err != nil || len(stored) > 0 || pipeline == "" {
		return stored, err
	}
	if stored, err = sink.Positions(ctx, ""); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("--pipeline %q: it has no positions; %s", pipeline, whoHas(stored))
}

// whoHas names the pipelines that have positions.
func whoHas(stored []framework.StoredPosition) string {
	if len(stored) == 0 {
		return "no pipeline has any"
	}
	var names []string
	for _, p := range stored {
		names = append(names, strconv.Quote(p.Pipeline))
	}
	slices.Sort(names)
	return "there are some of " + strings.Join(slices.Compact(names), ", ")
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
