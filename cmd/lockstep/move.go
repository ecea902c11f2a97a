package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// move is what is done to the position of one partition.
type move struct {
	stored framework.StoredPosition
	to     offsetstore.Position
	log    partitionLog
	past   bool        // the time that was asked for is past the last record
	record *kgo.Record // the one that is passed over, if it is known
}

// none reports whether the position is there already.
func (m move) none() bool { return m.stored.Position == m.to }

// otherTopic reports whether the position is of a topic that was made again.
func (m move) otherTopic() bool {
	from := m.stored.Position.TopicID
	return !from.IsZero() && from != m.to.TopicID
}

// plan returns where a rule puts positions of one topic. The leader epoch of a new
// position is not known; the first save tells it.
func (c *change) plan(ctx context.Context, stored []framework.StoredPosition, topic topicLog, rule offsetstore.StartRule) ([]move, error) {
	resolve, err := c.resolver(ctx, stored[0].Topic, topic, rule)
	if err != nil {
		return nil, err
	}
	var moves []move
	for _, p := range stored {
		log, ok := topic.partitions[p.Partition]
		if !ok {
			return nil, refused(fmt.Errorf("%s is not in Kafka any more: the topic has %s; name others by --partition", p.TopicPartition, count(len(topic.partitions), "partition")))
		}
		offset, past := resolve(p.Partition, log)
		if offset < log.start || offset > log.end {
			return nil, refused(fmt.Errorf("offset %d is not in the log of %s, which holds %s", offset, p.TopicPartition, log))
		}
		to := offsetstore.At(offset)
		to.TopicID = topic.id
		moves = append(moves, move{stored: p, to: to, log: log, past: past})
	}
	return moves, nil
}

// resolver returns what finds the offset that a rule gives for a partition, and
// tells whether the rule's time is past the last record.
func (c *change) resolver(ctx context.Context, name string, topic topicLog, rule offsetstore.StartRule) (func(int32, partitionLog) (int64, bool), error) {
	switch rule.Kind() {
	case offsetstore.StartLatest:
		return func(_ int32, log partitionLog) (int64, bool) { return log.stable, false }, nil
	case offsetstore.StartExact:
		return func(int32, partitionLog) (int64, bool) { return rule.Offset(), false }, nil
	case offsetstore.StartTimestamp:
		offsets, past, err := c.cluster.since(ctx, name, topic, rule.Time().UnixMilli())
		return func(n int32, _ partitionLog) (int64, bool) { return offsets[n], past[n] }, err
	default:
		return func(_ int32, log partitionLog) (int64, bool) { return log.start, false }, nil
	}
}
