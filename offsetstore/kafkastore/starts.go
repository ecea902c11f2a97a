package kafkastore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Starts returns where every partition of the store's topics continues: at what
// the group has committed, else where Config.Defaults put it. What is committed is
// returned as it is, also if the log does not hold it any more.
func (s *Store) Starts(ctx context.Context) (map[offsetstore.TopicPartition]offsetstore.Start, error) {
	partitions, err := s.Partitions(ctx)
	if err != nil {
		return nil, err
	}
	committed, err := s.committed(ctx, partitions)
	if err != nil {
		return nil, err
	}
	starts := make(map[offsetstore.TopicPartition]offsetstore.Start, len(partitions))
	var open []offsetstore.TopicPartition
	for _, p := range partitions {
		if c, ok := committed[p.TopicPartition]; ok {
			starts[p.TopicPartition] = offsetstore.Start{Offset: c.offset, LeaderEpoch: c.epoch, Saved: true, Metadata: c.metadata}
		} else {
			open = append(open, p.TopicPartition)
		}
	}
	resolved, err := s.resolve(ctx, open)
	maps.Copy(starts, resolved)
	if err != nil {
		return nil, err
	}
	return starts, nil
}

// commit is what the group has committed for a partition.
type commit struct {
	offset   int64
	epoch    int32
	metadata string
}

// committed returns what the group has committed for the partitions. Only those
// that failed for reasons that pass are asked for again.
func (s *Store) committed(ctx context.Context, partitions []Partition) (map[offsetstore.TopicPartition]commit, error) {
	found := map[offsetstore.TopicPartition]commit{}
	open := map[offsetstore.TopicPartition]bool{}
	for _, p := range partitions {
		open[p.TopicPartition] = true
	}
	err := s.retry(ctx, "read the committed offsets", func(ctx context.Context) error {
		resp, err := fetchRequest(s.cfg.Group, open).RequestWith(ctx, s.client)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		switch {
		case errors.Is(err, kerr.GroupIDNotFound):
			return nil // it has committed nothing
		case err != nil:
			return err
		}
		return takeCommitted(open, found, resp)
	})
	return found, err
}

func fetchRequest(group string, open map[offsetstore.TopicPartition]bool) *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	req.RequireStable = true // what a transaction is about to commit is waited for
	for _, name := range topicsOf(open) {
		topic := kmsg.NewOffsetFetchRequestTopic()
		topic.Topic = name
		for tp := range open {
			if tp.Topic == name {
				topic.Partitions = append(topic.Partitions, tp.Partition)
			}
		}
		req.Topics = append(req.Topics, topic)
	}
	return req
}

// takeCommitted moves what is known from open to found, and returns the worst of
// what is not.
func takeCommitted(open map[offsetstore.TopicPartition]bool, found map[offsetstore.TopicPartition]commit, resp *kmsg.OffsetFetchResponse) error {
	var failed error
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			tp := offsetstore.TopicPartition{Topic: topic.Topic, Partition: p.Partition}
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				failed = worse(failed, &offsetstore.PartitionError{TopicPartition: tp, Err: err})
				continue
			}
			if p.Offset >= 0 {
				found[tp] = commit{p.Offset, p.LeaderEpoch, deref(p.Metadata)}
			}
			delete(open, tp)
		}
	}
	for tp := range open {
		if failed == nil { // not even answered
			failed = &offsetstore.PartitionError{TopicPartition: tp, Err: ErrUnknownTopic}
		}
	}
	return failed
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// worse keeps the error that trying again does not mend.
func worse(a, b error) error {
	if a == nil || b != nil && passes(a) && !passes(b) {
		return b
	}
	return a
}

// resolve applies the rules to partitions for which nothing is committed.
func (s *Store) resolve(ctx context.Context, open []offsetstore.TopicPartition) (map[offsetstore.TopicPartition]offsetstore.Start, error) {
	byRule := map[offsetstore.StartRule][]offsetstore.TopicPartition{}
	for _, tp := range open {
		rule := s.cfg.Defaults.For(tp)
		byRule[rule] = append(byRule[rule], tp)
	}
	starts := map[offsetstore.TopicPartition]offsetstore.Start{}
	for rule, tps := range byRule {
		open := map[offsetstore.TopicPartition]bool{}
		for _, tp := range tps {
			open[tp] = true
		}
		err := s.retry(ctx, "resolve "+rule.String(), func(ctx context.Context) error {
			return s.resolveRule(ctx, rule, open, starts)
		})
		if err != nil {
			return nil, err
		}
	}
	return starts, nil
}

// The times by which Kafka names the ends of a log.
const (
	atStart int64 = offsetstore.MagicEarliest
	atEnd   int64 = offsetstore.MagicLatest
)

// asks returns what must be asked to apply a rule, in order. The end comes before a
// time: a record that arrives between the two is found by the time, or lies behind
// the end.
func asks(rule offsetstore.StartRule) []int64 {
	switch rule.Kind() {
	case offsetstore.StartLatest:
		return []int64{atEnd}
	case offsetstore.StartTimestamp:
		return []int64{atEnd, rule.Time().UnixMilli()}
	case offsetstore.StartExact:
		return []int64{atStart, atEnd}
	default:
		return []int64{atStart}
	}
}

// resolveRule moves what a rule gives from open to starts, and returns the worst of
// what keeps others open.
func (s *Store) resolveRule(ctx context.Context, rule offsetstore.StartRule, open map[offsetstore.TopicPartition]bool, starts map[offsetstore.TopicPartition]offsetstore.Start) error {
	var failed error
	offsets := map[offsetstore.TopicPartition][]int64{}
	times := asks(rule)
	for _, at := range times {
		failed = worse(failed, s.list(ctx, at, open, offsets))
	}
	for tp := range open {
		if len(offsets[tp]) < len(times) {
			continue
		}
		start, err := place(rule, offsets[tp])
		if err != nil {
			failed = worse(failed, &offsetstore.PartitionError{TopicPartition: tp, Err: err})
			continue
		}
		starts[tp] = start
		delete(open, tp)
	}
	return failed
}

// place applies a rule to what asks has asked for.
func place(rule offsetstore.StartRule, offsets []int64) (offsetstore.Start, error) {
	start := offsetstore.Start{Offset: offsets[0], LeaderEpoch: offsetstore.NoLeaderEpoch, Rule: rule}
	switch rule.Kind() {
	case offsetstore.StartTimestamp:
		if at := offsets[1]; at >= 0 {
			start.Offset = at
		} else {
			start.PastEnd = true
		}
	case offsetstore.StartExact:
		first, end := offsets[0], offsets[1]
		start.Offset = rule.Offset()
		if start.Offset < first || start.Offset > end {
			return start, fmt.Errorf("%w: the start rule asks for offset %d, but the log holds %d..%d", ErrConfig, start.Offset, first, end)
		}
	}
	return start, nil
}

// list asks the leaders of the partitions for their offsets at a time, appends them to
// offsets, and returns the worst of what is not known.
func (s *Store) list(ctx context.Context, at int64, open map[offsetstore.TopicPartition]bool, offsets map[offsetstore.TopicPartition][]int64) error {
	var failed error
	answered := 0
	for _, shard := range s.client.RequestSharded(ctx, listRequest(at, open)) {
		resp, ok := shard.Resp.(*kmsg.ListOffsetsResponse)
		if !ok {
			failed = worse(failed, shardError(shard))
			continue
		}
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				tp := offsetstore.TopicPartition{Topic: topic.Topic, Partition: p.Partition}
				answered++
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					failed = worse(failed, &offsetstore.PartitionError{TopicPartition: tp, Err: err})
					continue
				}
				offsets[tp] = append(offsets[tp], p.Offset)
			}
		}
	}
	if failed == nil && answered < len(open) {
		failed = fmt.Errorf("%d of %d partitions were answered: %w", answered, len(open), ErrUnknownTopic)
	}
	return failed
}

// shardError names the partition if its leader is not known, so that it was not even
// asked.
func shardError(shard kgo.ResponseShard) error {
	var code *kerr.Error
	if req, ok := shard.Req.(*kmsg.ListOffsetsRequest); ok && errors.As(shard.Err, &code) {
		for _, topic := range req.Topics {
			for _, p := range topic.Partitions {
				tp := offsetstore.TopicPartition{Topic: topic.Topic, Partition: p.Partition}
				return &offsetstore.PartitionError{TopicPartition: tp, Err: shard.Err}
			}
		}
	}
	return shard.Err
}

func listRequest(at int64, open map[offsetstore.TopicPartition]bool) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1 // a consumer
	for _, name := range topicsOf(open) {
		topic := kmsg.NewListOffsetsRequestTopic()
		topic.Topic = name
		for tp := range open {
			if tp.Topic == name {
				p := kmsg.NewListOffsetsRequestTopicPartition()
				p.Partition, p.Timestamp = tp.Partition, at
				topic.Partitions = append(topic.Partitions, p)
			}
		}
		req.Topics = append(req.Topics, topic)
	}
	return req
}

func topicsOf(tps map[offsetstore.TopicPartition]bool) []string {
	names := map[string]bool{}
	for tp := range tps {
		names[tp.Topic] = true
	}
	return slices.Sorted(maps.Keys(names))
}
