package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

func (p *program) skipCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "skip --sink DSN --brokers HOST:PORT,… --pipeline NAME --partition N --offset N [--apply]",
		Short: "Pass over the one record at which a pipeline has stopped",
		Long: `Pass over the record at which a pipeline has stopped. Topic, partition and offset
are in the pipeline's error, as in: orders/1@17: map failed after 1 attempt.

Without --apply it only shows the record. It has to be the next one of the
partition, so the command cannot pass over anything else, and may be repeated.
The position is moved by one compare-and-set, as by "lockstep reset", and a
living owner is refused alike.

The record is never processed: it leaves no row, no total, no dead letter, and no
trace in the counts. Keep it, if it matters. A pipeline that is to do this by
itself has a failure policy (skip, or dead-letter).
` + kafkaHelp + `

` + exitCodes,
		Example: `  lockstep skip --sink sqlite://app.db --brokers 127.0.0.1:9092 --pipeline spending --partition 1 --offset 17
  lockstep skip --sink sqlite://app.db --brokers 127.0.0.1:9092 --pipeline spending --partition 1 --offset 17 --apply`,
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
	}
	s := &skip{change: p.addChangeFlags(cmd)}
	s.scope.partitionFlag(cmd, "the partition (required)")
	cmd.Flags().Int64Var(&s.offset, "offset", -1, "the record's offset (required)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(s.scope.partitions) != 1 || s.offset < 0 {
			return fmt.Errorf("%w: give one --partition and the --offset, 0 or more, of the record, as the pipeline's error tells them", framework.ErrConfig)
		}
		return s.run(cmd, s.skip)
	}
	return cmd
}

// skip is the command of that name.
type skip struct {
	*change
	offset int64
}

func (s *skip) skip(ctx context.Context, stored []framework.StoredPosition) error {
	m, err := s.find(ctx, stored[0])
	if err != nil {
		return err
	}
	o, err := s.owners(ctx, stored)
	if err != nil {
		return err
	}
	if s.apply {
		if err := s.refuse(o); err != nil {
			return err
		}
	}
	if !s.json {
		s.show(m, o)
	}
	return s.perform(ctx, []move{m}, false)
}

// find returns the move over the record, which has to be the next one.
func (s *skip) find(ctx context.Context, p framework.StoredPosition) (move, error) {
	topic, err := s.topic(ctx, p.Topic)
	if err != nil {
		return move{}, err
	}
	at := standing{StoredPosition: p}
	at.compare(map[string]topicLog{p.Topic: topic})
	switch {
	case at.condition != "":
		return move{}, refused(fmt.Errorf("%s: there is no next record, since the position %d cannot be read from (%s); see `lockstep reset --help`", p.TopicPartition, p.Position.Offset, at.condition))
	case s.offset < p.Position.Offset:
		return move{}, refused(fmt.Errorf("%s@%d is passed already: the position is %d", p.TopicPartition, s.offset, p.Position.Offset))
	}
	record, err := s.cluster.next(ctx, p.TopicPartition, p.Position.Offset, *at.log)
	if errors.Is(err, errNoRecord) {
		return move{}, refused(fmt.Errorf("%s: there is no record from the position %d on; the log holds %s", p.TopicPartition, p.Position.Offset, at.log))
	}
	if err != nil {
		return move{}, err
	}
	if record.Offset != s.offset {
		return move{}, refused(fmt.Errorf("%s@%d is not the next record of the pipeline, that is the one at %d; `lockstep reset` moves further", p.TopicPartition, s.offset, record.Offset))
	}
	to := offsetstore.Position{Offset: record.Offset + 1, LeaderEpoch: record.LeaderEpoch, TopicID: topic.id}
	return move{stored: p, to: to, log: *at.log, record: record}, nil
}

func (s *skip) show(m move, o owners) {
	r := m.record
	fmt.Fprintf(s.out, "record  %s@%d\ntime    %s\nkey     %s\n", m.stored.TopicPartition, r.Offset, timeCell(r.Timestamp), shown(r.Key))
	for _, h := range r.Headers {
		fmt.Fprintf(s.out, "header  %s: %s\n", printable(h.Key), shown(h.Value))
	}
	fmt.Fprintf(s.out, "value   %s\n\n", shown(r.Value))
	fmt.Fprintln(s.out, "It is passed over: it is never processed, and leaves no row, no total and no dead letter.")
	for _, text := range o.say(s.fence) {
		fmt.Fprintln(s.out, folded(text))
	}
}
