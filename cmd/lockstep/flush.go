package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lockstep-stream/lockstep/framework"
)

func (p *program) flushCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "flush --sink DSN [--pipeline NAME] [--topic NAME] [--partition N,…]",
		Short: "Finish what a dead owner has left: saves that are durable and not yet visible",
		Long: `Finish what a dead owner has left. On Cassandra the rows of a save become visible
within milliseconds of its commit, unless the owner dies in between; then they do
when the partition is next claimed, or by this command. It claims nothing, and a
living owner is not disturbed: what is written is what the owner writes itself.

A sink whose saves are visible as soon as they are durable, such as PostgreSQL and
SQLite, has nothing to finish, and the command says so.

` + exitCodes,
		Example: `  lockstep flush --sink cassandra://10.0.0.1/app
  lockstep flush --sink cassandra://10.0.0.1/app --pipeline spending --partition 0`,
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
	}
	v := p.addViewFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return v.run(cmd, func(ctx context.Context) error { return v.flush(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr()) })
	}
	return cmd
}

func (v *view) flush(ctx context.Context, out, errs io.Writer) error {
	stored, err := v.stored(ctx)
	if err != nil {
		return err
	}
	if len(stored) == 0 {
		fmt.Fprintln(errs, "lockstep: no positions are stored")
		return nil
	}
	pending := slices.ContainsFunc(stored, func(p framework.StoredPosition) bool { return p.Pending })
	flusher, err := power[framework.Flusher](v.sink, "finish saves without a claim")
	if err != nil {
		if pending {
			return err
		}
		fmt.Fprintln(errs, "lockstep: nothing is left to finish: all saves are visible in full, as this sink's always are once they are durable")
		return nil
	}
	for i, p := range stored {
		if err := v.flushOne(ctx, flusher, p, out); err != nil {
			return failedWith(fmt.Errorf("%s: %w", p.TopicPartition, err), left(stored[i+1:]))
		}
	}
	return nil
}

// left names what was not looked at.
func left(rest []framework.StoredPosition) string {
	if len(rest) == 0 {
		return ""
	}
	return "; not looked at: " + placesOf(rest)
}

// flushLine is what was done with a partition, in JSON.
type flushLine struct {
	Pipeline   string `json:"pipeline"`
	Topic      string `json:"topic"`
	Partition  int32  `json:"partition"`
	WasPending bool   `json:"was_pending"`
}

// flushOne flushes also what is not listed as pending: the list may be a little old.
func (v *view) flushOne(ctx context.Context, flusher framework.Flusher, p framework.StoredPosition, out io.Writer) error {
	if err := flusher.Flush(ctx, p.Pipeline, p.TopicPartition); err != nil && !errors.Is(err, framework.ErrRefused) {
		return err
	}
	if v.json {
		return writeJSON(out, flushLine{p.Pipeline, p.Topic, p.Partition, p.Pending})
	}
	text := "nothing was left to finish"
	if p.Pending {
		text = fmt.Sprintf("finished: everything before offset %d is visible", p.Position.Offset)
	}
	fmt.Fprintf(out, "%s: %s: %s\n", p.Pipeline, p.TopicPartition, text)
	return nil
}
