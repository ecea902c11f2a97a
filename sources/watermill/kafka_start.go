package watermill

import (
	"context"
	"fmt"

	"github.com/IBM/sarama"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// start is a wish to read from a position, for the goroutine that feeds.
type start struct {
	at   offsetstore.Position
	done chan error
}

// Start implements framework.Partition: it checks from against the log itself,
// and then has a consumer opened there.
func (p *partition) Start(ctx context.Context, from offsetstore.Position) error {
	if from.Offset < 0 {
		return fmt.Errorf("watermill source: %s: position %d is negative", p.tp, from.Offset)
	}
	ctx, done := scope(ctx, p.soft)
	defer done()
	p.halt()
	_, err := retry(ctx, p.r, p.tp.String(), func() (struct{}, error) {
		id, err := p.check(from)
		if err == nil {
			at := from
			at.TopicID = id
			err = p.open(ctx, at)
		}
		return struct{}{}, err
	})
	return p.ended(err)
}

// halt stops delivery until the partition is started (again).
func (p *partition) halt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused, p.started, p.handed = true, false, nil
}

func (p *partition) open(ctx context.Context, at offsetstore.Position) error {
	s := &start{at: at, done: make(chan error, 1)}
	select {
	case p.starts <- s:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-s.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// moved notes that the consumer stands at at, and mirrors that: what the group
// holds may have expired, never been written, or be what an operator has reset.
func (p *partition) moved(at offsetstore.Position) {
	p.mu.Lock()
	p.started, p.paused, p.next, p.handed = true, true, at, nil
	p.mu.Unlock()
	p.Mirror(at)
}

// check compares pos with the log, and returns the topic's identity.
func (p *partition) check(pos offsetstore.Position) (offsetstore.TopicID, error) {
	info, err := p.r.describe(p.tp.Topic)
	if err != nil {
		return info.id, err
	}
	epoch, ok := info.epochs[p.tp.Partition]
	if !ok {
		return info.id, fmt.Errorf("%w: %s", errNoTopic, p.tp)
	}
	fault := &framework.PositionError{TopicPartition: p.tp, Position: pos, TopicID: info.id}
	if !pos.TopicID.IsZero() && !info.id.IsZero() && pos.TopicID != info.id {
		fault.Err = framework.ErrTopicRecreated
		return info.id, fault
	}
	if fault.LogStart, err = p.r.offset(p.tp, sarama.OffsetOldest, false); err != nil {
		return info.id, err
	}
	if fault.LogEnd, err = p.r.offset(p.tp, sarama.OffsetNewest, false); err != nil {
		return info.id, err
	}
	switch {
	case pos.Offset < fault.LogStart:
		fault.Err = framework.ErrBelowLogStart
	case pos.Offset > fault.LogEnd, pos.LeaderEpoch > epoch: // an epoch from the future is that of a log that is gone
		fault.Err = framework.ErrAboveLogEnd
	default:
		return info.id, nil
	}
	return info.id, fault
}

// Resolve implements framework.Partition. "Latest" is the end as a reader of
// committed records sees it. An exact offset outside the log is refused with a
// *framework.PositionError.
func (p *partition) Resolve(ctx context.Context, rules offsetstore.StartRules) (framework.TopicStart, error) {
	if err := rules.Validate(); err != nil {
		return framework.TopicStart{}, refused(err)
	}
	ctx, done := scope(ctx, p.soft)
	defer done()
	result, err := retry(ctx, p.r, p.tp.Topic, func() (framework.TopicStart, error) { return p.r.resolve(p.tp.Topic, rules) })
	return result, p.ended(err)
}

func (r *run) resolve(topic string, rules offsetstore.StartRules) (framework.TopicStart, error) {
	info, err := r.describe(topic)
	if err != nil {
		return framework.TopicStart{}, err
	}
	result := framework.TopicStart{ClusterID: info.clusterID, TopicID: info.id, Starts: make(map[int32]int64, len(info.epochs))}
	for n := range info.epochs {
		tp := offsetstore.TopicPartition{Topic: topic, Partition: n}
		if result.Starts[n], err = r.resolveOne(tp, rules.For(tp), info.id); err != nil {
			return framework.TopicStart{}, err
		}
	}
	return result, nil
}

func (r *run) resolveOne(tp offsetstore.TopicPartition, rule offsetstore.StartRule, id offsetstore.TopicID) (int64, error) {
	switch rule.Kind() {
	case offsetstore.StartLatest:
		return r.offset(tp, sarama.OffsetNewest, true)
	case offsetstore.StartTimestamp:
		at, err := r.offset(tp, max(rule.Time().UnixMilli(), 0), true)
		if err == nil && at < 0 { // no record is that young
			at, err = r.offset(tp, sarama.OffsetNewest, true)
		}
		return at, err
	case offsetstore.StartExact:
		return rule.Offset(), r.within(tp, rule.Offset(), id)
	default:
		return r.offset(tp, sarama.OffsetOldest, false)
	}
}

// within returns an error unless the log holds the offset.
func (r *run) within(tp offsetstore.TopicPartition, offset int64, id offsetstore.TopicID) (err error) {
	fault := &framework.PositionError{TopicPartition: tp, Position: offsetstore.At(offset), TopicID: id}
	if fault.LogStart, err = r.offset(tp, sarama.OffsetOldest, false); err != nil {
		return err
	}
	if fault.LogEnd, err = r.offset(tp, sarama.OffsetNewest, false); err != nil {
		return err
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
