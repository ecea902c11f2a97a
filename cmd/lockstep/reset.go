package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

func (p *program) resetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reset --sink DSN --brokers HOST:PORT,… --pipeline NAME --to WHERE [--partition N,…] [--apply]",
		Short: "Move saved positions: back, to do records again, or forth, to pass over them",
		Long: `Move the saved positions of a topic, of all its partitions or of some. Without
--apply it only shows where they would go, and what that means for rows and
totals.

WHERE is "earliest" or "latest", the first or the next offset of the log; a time,
such as 2024-05-01T00:00:00Z, for the first record that is not older; or
"offset:N". A position moves to what the log holds, and gets the topic's present
ID: that is how a pipeline goes on in a topic that was deleted and made again.

Each partition is moved by one compare-and-set. If a save has moved it meanwhile
nothing is changed, and the command says so. Every earlier claim is fenced: a
process that still runs cannot save any more before it has read the new position.
Partitions of a living owner are refused all the same, without --fence. An owner
lives if the consumer group has members.

Rows that were written stay. Going back writes those of the same records again;
nothing is removed. Totals of reductions stay, too, and then count the records
twice, unless --drop-state makes them begin at nothing. That is right where the
position moves to before the first record that they contain, and the log still
holds all of them. Dead letters and the counts of records stay as they are.
` + kafkaHelp + `

` + exitCodes,
		Example: `  lockstep reset --sink sqlite://app.db --brokers 127.0.0.1:9092 --pipeline spending --to earliest --drop-state
  lockstep reset --sink sqlite://app.db --brokers 127.0.0.1:9092 --pipeline spending --partition 2 --to offset:1200 --apply
  lockstep reset --sink sqlite://app.db --brokers 127.0.0.1:9092 --pipeline spending --to 2024-05-01T00:00:00Z`,
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
	}
	r := &reset{change: p.addChangeFlags(cmd)}
	r.scope.partitionFlag(cmd, "the partitions, such as 0,2 (default all)")
	cmd.Flags().StringVar(&r.where, "to", "", `earliest, latest, a time such as 2024-05-01T00:00:00Z, or offset:N (required)`)
	cmd.Flags().BoolVar(&r.dropState, "drop-state", false, "have the totals of reductions in these partitions begin at nothing")
	complete(cmd, "to", cobra.FixedCompletions([]string{"earliest", "latest", "offset:"}, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := r.parse(); err != nil {
			return fmt.Errorf("%w: %w", framework.ErrConfig, err)
		}
		return r.run(cmd, r.reset)
	}
	return cmd
}

// reset is the command of that name.
type reset struct {
	*change
	where     string
	rule      offsetstore.StartRule
	dropState bool
}

// parse checks what is not a matter of every change.
func (r *reset) parse() (err error) {
	if r.where == "" {
		return fmt.Errorf("--to is missing; give earliest, latest, a time such as 2024-05-01T00:00:00Z, or offset:N")
	}
	if n, err := strconv.ParseInt(r.where, 10, 64); err == nil && n >= 0 {
		return fmt.Errorf("--to %s: is it an offset or a time? Give offset:%d, or a time such as 2024-05-01T00:00:00Z", r.where, n)
	}
	if r.rule, err = offsetstore.ParseStart("--to", r.where); err != nil {
		return err
	}
	if r.rule.Kind() == offsetstore.StartTimestamp {
		rules := offsetstore.StartRules{Default: r.rule}
		if err := rules.Validate(); err != nil {
			return fmt.Errorf("--to %q: %w", r.where, err)
		}
	}
	if r.rule.Kind() == offsetstore.StartExact && len(r.scope.partitions) != 1 {
		return fmt.Errorf("--to %s: an offset is for one partition; give --partition N", r.where)
	}
	return nil
}

func (r *reset) reset(ctx context.Context, stored []framework.StoredPosition) error {
	topic, err := r.topic(ctx, stored[0].Topic)
	if err != nil {
		return err
	}
	moves, err := r.plan(ctx, stored, topic, r.rule)
	if err != nil {
		return err
	}
	o, err := r.owners(ctx, r.changed(moves))
	if err != nil {
		return err
	}
	if r.apply {
		if err := r.refuse(o); err != nil {
			return err
		}
	}
	if !r.json {
		if err := r.show(moves, append(r.begins(stored, topic), o.say(r.fence)...)); err != nil {
			return err
		}
	}
	return r.perform(ctx, moves, r.dropState)
}

// changed returns the positions that are not where they should be.
func (r *reset) changed(moves []move) []framework.StoredPosition {
	var stored []framework.StoredPosition
	for _, m := range moves {
		if !m.none() || r.dropState {
			stored = append(stored, m.stored)
		}
	}
	return stored
}

// show writes where positions go, and what follows.
func (r *reset) show(moves []move, more []string) error {
	columns := []column[move]{
		{"PIPELINE", func(m move) string { return m.stored.Pipeline }},
		{"TOPIC", func(m move) string { return m.stored.Topic }},
		{"PARTITION", func(m move) string { return fmt.Sprint(m.stored.Partition) }},
		{"LOG", func(m move) string { return m.log.String() }},
		{"FROM", func(m move) string { return fmt.Sprint(m.stored.Position.Offset) }},
		{"TO", func(m move) string { return fmt.Sprint(m.to.Offset) }},
		{"OFFSETS", moved},
	}
	if err := writeTable(r.out, columns, moves); err != nil {
		return err
	}
	fmt.Fprintln(r.out)
	for _, text := range append(r.consequences(moves), more...) {
		fmt.Fprintln(r.out, folded(text))
	}
	return nil
}

// moved is by how much a position moves, with its direction.
func moved(m move) string {
	switch {
	case m.none():
		return "stays"
	case m.otherTopic():
		return "other topic"
	}
	return fmt.Sprintf("%+d", m.to.Offset-m.stored.Position.Offset)
}
