package kafkastore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Starts returns where every partition of the store's topics continues: at what
// the group has committed, else where Config.Defaults put it.
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
	if a == nil || passes(a) && !passes(b) {
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

// resolveRule moves what a rule gives from open to starts.
func (s *Store) resolveRule(ctx context.Context, rule offsetstore.StartRule, open map[offsetstore.TopicPartition]bool, starts map[offsetstore.TopicPartition]offsetstore.Start) error {
	if rule.Kind() == offsetstore.StartExact {
		return s.resolveExact(ctx, rule, open, starts)
	}
	listed, err := s.list(ctx, rule, topicsOf(open))
	if err != nil {
		return err
	}
	var failed error
	for tp := range open {
		l, err := listedOffset(listed, tp)
		if err != nil {
			failed = worse(failed, err)
			continue
		}
		starts[tp] = offsetstore.Start{
			Offset: l.Offset, LeaderEpoch: offsetstore.NoLeaderEpoch, Rule: rule,
			PastEnd: rule.Kind() == offsetstore.StartTimestamp && l.Timestamp < 0,
		}
		delete(open, tp)
	}
	return failed
}

func (s *Store) list(ctx context.Context, rule offsetstore.StartRule, topics []string) (kadm.ListedOffsets, error) {
	switch rule.Kind() {
	case offsetstore.StartLatest:
		return s.admin.ListEndOffsets(ctx, topics...)
	case offsetstore.StartTimestamp:
		return s.admin.ListOffsetsAfterMilli(ctx, rule.Time().UnixMilli(), topics...)
	default:
		return s.admin.ListStartOffsets(ctx, topics...)
	}
}

// resolveExact checks the offset against the log.
func (s *Store) resolveExact(ctx context.Context, rule offsetstore.StartRule, open map[offsetstore.TopicPartition]bool, starts map[offsetstore.TopicPartition]offsetstore.Start) error {
	first, err := s.admin.ListStartOffsets(ctx, topicsOf(open)...)
	if err != nil {
		return err
	}
	end, err := s.admin.ListEndOffsets(ctx, topicsOf(open)...)
	if err != nil {
		return err
	}
	var failed error
	for tp := range open {
		from, err := listedOffset(first, tp)
		to, err2 := listedOffset(end, tp)
		switch at := rule.Offset(); {
		case err != nil:
			failed = worse(failed, err)
		case err2 != nil:
			failed = worse(failed, err2)
		case at < from.Offset || at > to.Offset:
			return &offsetstore.PartitionError{TopicPartition: tp, Err: fmt.Errorf("%w: the start rule asks for offset %d, but the log holds %d..%d", ErrConfig, at, from.Offset, to.Offset)}
		default:
			starts[tp] = offsetstore.Start{Offset: at, LeaderEpoch: offsetstore.NoLeaderEpoch, Rule: rule}
			delete(open, tp)
		}
	}
	return failed
}

func listedOffset(listed kadm.ListedOffsets, tp offsetstore.TopicPartition) (kadm.ListedOffset, error) {
	l, ok := listed.Lookup(tp.Topic, tp.Partition)
	switch {
	case !ok:
		return l, &offsetstore.PartitionError{TopicPartition: tp, Err: ErrUnknownTopic}
	case l.Err != nil:
		return l, &offsetstore.PartitionError{TopicPartition: tp, Err: l.Err}
	}
	return l, nil
}

func topicsOf(tps map[offsetstore.TopicPartition]bool) []string {
	names := map[string]bool{}
	for tp := range tps {
		names[tp.Topic] = true
	}
	return slices.Sorted(maps.Keys(names))
}
