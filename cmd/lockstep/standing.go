package main

import (
	"context"
	"fmt"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// standing is a stored position beside what Kafka says of its partition.
type standing struct {
	framework.StoredPosition
	counters  framework.Counters
	age       time.Duration // since the last save
	log       *partitionLog // nil if Kafka was not asked, or has no such partition
	group     *int64        // what the group has committed, if anything
	condition string        // what keeps the position from being read from, if anything
}

// lag is how many offsets are left to read. Not each of them need be a record.
func (s standing) lag() int64 { return max(s.log.stable-s.Position.Offset, 0) }

// look returns the standings of stored positions, beside what Kafka says if it is to
// be asked. Where that fails they are returned with the error, as the sink alone knows
// them.
func (v *view) look(ctx context.Context, stored []framework.StoredPosition) ([]standing, error) {
	now := v.program.now()
	all := make([]standing, len(stored))
	for i, p := range stored {
		counters, err := framework.DecodeCounters(p.Lane)
		if err != nil {
			return nil, fmt.Errorf("pipeline %q: %s: %w", p.Pipeline, p.TopicPartition, err)
		}
		all[i] = standing{StoredPosition: p, counters: counters, age: now.Sub(p.SavedAt)}
	}
	if v.cluster == nil || len(all) == 0 {
		return all, nil
	}
	logs, err := v.cluster.logs(ctx, topicsOf(stored))
	if err != nil {
		return all, err
	}
	groups := map[string]map[offsetstore.TopicPartition]int64{}
	for i := range all {
		s := &all[i]
		s.compare(logs)
		name := groupOf(s.Pipeline, v.kafka.group)
		if groups[name] == nil {
			groups[name] = v.mirror(ctx, name)
		}
		if at, ok := groups[name][s.TopicPartition]; ok {
			s.group = &at
		}
	}
	return all, nil
}

// mirror returns what a group has committed. It decides nothing, so that the rest is
// shown without it.
func (v *view) mirror(ctx context.Context, group string) map[offsetstore.TopicPartition]int64 {
	offsets, err := v.cluster.committed(ctx, group)
	if err != nil && ctx.Err() == nil {
		v.program.log.Warn("what the consumer group has committed is not known", "group", group, "error", err)
	}
	if offsets == nil {
		offsets = map[offsetstore.TopicPartition]int64{} // asked once
	}
	return offsets
}

// groupOf is the consumer group of a pipeline: the one that was given, or the one
// that it has by custom.
func groupOf(pipeline, given string) string {
	if given == "" {
		return pipeline
	}
	return given
}

// compare fills in what the log says of the position.
func (s *standing) compare(logs map[string]topicLog) {
	topic, ok := logs[s.Topic]
	if !ok {
		s.condition = "topic is gone"
		return
	}
	if !s.Position.TopicID.IsZero() && s.Position.TopicID != topic.id {
		s.condition = "topic recreated"
	}
	log, ok := topic.partitions[s.Partition]
	if !ok {
		s.condition = "partition is gone"
		return
	}
	s.log = &log
	switch at := s.Position.Offset; {
	case s.condition != "":
	case at < log.start:
		s.condition = "below log start"
	case at > log.end:
		s.condition = "above log end"
	}
}

// Cells of tables.

func ageCell(s standing) string {
	if s.SavedAt.IsZero() {
		return "never"
	}
	return shortDuration(s.age)
}

// shortDuration writes a duration in its two largest units.
func shortDuration(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}

func stateCell(s standing) string {
	if s.Pending {
		return "pending"
	}
	return "applied"
}

func epochCell(s standing) string {
	if s.Position.LeaderEpoch == offsetstore.NoLeaderEpoch {
		return "-"
	}
	return fmt.Sprint(s.Position.LeaderEpoch)
}

func groupCell(s standing) string {
	if s.group == nil {
		return "-"
	}
	return fmt.Sprint(*s.group)
}

func logCell(s standing) string {
	if s.log == nil {
		return "-"
	}
	return s.log.String()
}

// String returns the offsets that the log holds, from the first to its end.
func (l partitionLog) String() string { return fmt.Sprintf("%d..%d", l.start, l.end) }

func lagCell(s standing) string {
	if s.log == nil {
		return "-"
	}
	return fmt.Sprint(s.lag())
}
