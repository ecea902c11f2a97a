package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Start implements framework.Partition: it checks from against the log itself,
// and then has the polling goroutine set the position.
func (p *partition) Start(ctx context.Context, from offsetstore.Position) error {
	if from.Offset < 0 {
		return fmt.Errorf("kafka source: %s: position %d is negative", p.tp, from.Offset)
	}
	ctx, done := p.scope(ctx)
	defer done()
	p.halt()
	log, err := retry(ctx, p.run, p.tp.String(), func() (standing, error) { return p.check(ctx, from) })
	if err != nil {
		p.reportRefusal(err)
		return p.ended(explain(err))
	}
	if err := p.clientReady(ctx, log.id); err != nil {
		return p.ended(err)
	}
	from.TopicID = log.id
	return p.ended(p.seek(ctx, from, log))
}

// halt stops delivery until the partition is started (again).
func (p *partition) halt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused, p.started = true, false
	p.apply()
}

// standing is what is known of a partition's log at a start.
type standing struct {
	topicInfo

	start, end int64 // first offset and high watermark
}

// check compares pos with the log once. The conditions are asked from the most
// to the least telling: a topic made again explains offsets out of range, and
// those explain an unknown epoch.
func (p *partition) check(ctx context.Context, pos offsetstore.Position) (standing, error) {
	log, err := p.checkAgainst(ctx, pos, metadataAge)
	var fault *framework.PositionError
	if errors.As(err, &fault) && !errors.Is(err, framework.ErrTopicRecreated) {
		// What was known of the topic may be of the one before.
		return p.checkAgainst(ctx, pos, 0)
	}
	return log, err
}

func (p *partition) checkAgainst(ctx context.Context, pos offsetstore.Position, maxAge time.Duration) (log standing, err error) {
	if log.topicInfo, err = p.run.describeOne(ctx, maxAge, p.tp.Topic); err != nil {
		return log, err
	}
	if _, ok := log.epochs[p.tp.Partition]; !ok {
		return log, fmt.Errorf("%w: %s", errNoPartition, p.tp)
	}
	if differ(pos.TopicID, log.id) {
		return log, p.fault(pos, log, framework.ErrTopicRecreated)
	}
	if log.start, log.end, err = p.bounds(ctx); err != nil {
		return log, err
	}
	switch {
	case pos.Offset < log.start:
		return log, p.fault(pos, log, framework.ErrBelowLogStart)
	case pos.Offset > log.end:
		return log, p.fault(pos, log, framework.ErrAboveLogEnd)
	}
	replaced, err := p.replaced(ctx, pos, log.topicInfo)
	if err == nil && replaced {
		err = p.fault(pos, log, framework.ErrAboveLogEnd)
	}
	return log, err
}

func (p *partition) fault(pos offsetstore.Position, log standing, condition error) error {
	return &framework.PositionError{TopicPartition: p.tp, Position: pos, LogStart: log.start, LogEnd: log.end, TopicID: log.id, Err: condition}
}

// bounds returns the log's first offset and its end (the high watermark).
func (p *partition) bounds(ctx context.Context) (start, end int64, err error) {
	n := p.tp.Partition
	starts, err := p.run.list(ctx, p.tp.Topic, map[int32]int64{n: atStart}, false)
	if err != nil {
		return 0, 0, err
	}
	ends, err := p.run.list(ctx, p.tp.Topic, map[int32]int64{n: atEnd}, false)
	return starts[n], ends[n], err
}

// replaced reports whether the log was cut below pos and has grown again: then
// the epoch that wrote the record before pos ends below pos, or has left no
// record at all.
func (p *partition) replaced(ctx context.Context, pos offsetstore.Position, info topicInfo) (bool, error) {
	if pos.LeaderEpoch < 0 {
		return false, nil
	}
	known, end, err := p.run.endOfEpoch(ctx, p.tp, pos.LeaderEpoch)
	switch {
	case err != nil:
		return false, err
	case end < 0 || known < 0:
		// The log knows no epochs, or none as high. Only the latter says
		// something: an epoch from the future is that of a log that is gone.
		return pos.LeaderEpoch > info.epochs[p.tp.Partition], nil
	}
	return end < pos.Offset || known < pos.LeaderEpoch, nil
}

// clientReady waits until the client knows the partition: it would look up the
// position of an unknown one, and move it into the log's bounds by itself. A
// topic that was made again is known to the client under its old identity for
// ever, so it has to be forgotten and subscribed anew, which ends this
// assignment.
func (p *partition) clientReady(ctx context.Context, id offsetstore.TopicID) error {
	r := p.run
	if r.renew(p.tp.Topic, id) {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	for {
		if leader, _, _ := r.cl.PartitionLeader(p.tp.Topic, p.tp.Partition); leader >= 0 {
			return nil
		}
		r.cl.ForceMetadataRefresh()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// renew subscribes the topic anew if the client knows it under another identity
// than id, and reports whether it did.
func (r *run) renew(topic string, id offsetstore.TopicID) bool {
	r.mu.Lock()
	known := r.topicIDs[topic]
	r.topicIDs[topic] = id
	r.mu.Unlock()
	if !differ(known, id) {
		return false
	}
	r.log.Warn("the topic was deleted and created again; subscribing to the new one", "topic", topic, "topic_id", id)
	r.cl.PurgeTopicsFromConsuming(topic)
	r.cl.AddConsumeTopics(topic)
	return true
}
