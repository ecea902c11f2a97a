package kafka

import (
	"context"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Resolve implements framework.Partition. "Latest" is the end as a reader of
// committed records sees it: with a transaction under way, before its records.
// An exact offset outside the log is refused with a *framework.PositionError.
func (p *partition) Resolve(ctx context.Context, rules offsetstore.StartRules) (framework.TopicStart, error) {
	if err := rules.Validate(); err != nil {
		return framework.TopicStart{}, refused(err)
	}
	ctx, done := p.scope(ctx)
	defer done()
	start, err := retry(ctx, p.run, p.tp.Topic, func() (framework.TopicStart, error) {
		return p.run.resolve(ctx, p.tp.Topic, rules)
	})
	if err != nil {
		return framework.TopicStart{}, p.ended(explain(err))
	}
	return start, nil
}

func (r *run) resolve(ctx context.Context, topic string, rules offsetstore.StartRules) (framework.TopicStart, error) {
	info, err := r.describeOne(ctx, 0, topic)
	if err != nil {
		return framework.TopicStart{}, err
	}
	b, err := r.topicBounds(ctx, topic, info)
	if err != nil {
		return framework.TopicStart{}, err
	}
	result := framework.TopicStart{ClusterID: info.clusterID, TopicID: info.id, Starts: make(map[int32]int64, len(info.epochs))}
	since := make(map[int32]int64)
	for number := range info.epochs {
		tp := offsetstore.TopicPartition{Topic: topic, Partition: number}
		rule := rules.For(tp)
		switch rule.Kind() {
		case offsetstore.StartLatest:
			result.Starts[number] = b.stable[number]
		case offsetstore.StartTimestamp:
			since[number] = max(rule.Time().UnixMilli(), 0)
		case offsetstore.StartExact:
			if err := b.admit(tp, rule.Offset(), info.id); err != nil {
				return framework.TopicStart{}, err
			}
			result.Starts[number] = rule.Offset()
		default:
			result.Starts[number] = b.start[number]
		}
	}
	found, err := r.list(ctx, topic, since, true)
	if err != nil {
		return framework.TopicStart{}, err
	}
	for number, offset := range found {
		if offset < 0 { // no record is that young
			offset = b.stable[number]
		}
		result.Starts[number] = offset
	}
	return result, nil
}

// bounds are the limits of a topic's logs: their first offsets, the ends for
// readers of committed records, and the ends.
type bounds struct{ start, stable, end listed }

func (r *run) topicBounds(ctx context.Context, topic string, info topicInfo) (b bounds, err error) {
	all := func(timestamp int64) map[int32]int64 {
		at := make(map[int32]int64, len(info.epochs))
		for number := range info.epochs {
			at[number] = timestamp
		}
		return at
	}
	if b.start, err = r.list(ctx, topic, all(atStart), false); err != nil {
		return b, err
	}
	if b.stable, err = r.list(ctx, topic, all(atEnd), true); err != nil {
		return b, err
	}
	b.end, err = r.list(ctx, topic, all(atEnd), false)
	return b, err
}

func (b bounds) admit(tp offsetstore.TopicPartition, offset int64, id offsetstore.TopicID) error {
	fault := &framework.PositionError{
		TopicPartition: tp,
		Position:       offsetstore.At(offset),
		LogStart:       b.start[tp.Partition],
		LogEnd:         b.end[tp.Partition],
		TopicID:        id,
	}
	switch {
	case offset < fault.LogStart:
		fault.Err = framework.ErrBelowLogStart
	case offset > fault.LogEnd:
		fault.Err = framework.ErrAboveLogEnd
	default:
		return nil
	}
	return fault
}
