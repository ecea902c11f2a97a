package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// topicStarts asks the sink once for each topic where its partitions began.
type topicStarts struct {
	mu    sync.Mutex
	known map[string]*topicStart
}

type topicStart struct {
	turn   chan struct{}
	stored *TopicStart
}

func (t *topicStarts) of(topic string) *topicStart {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = map[string]*topicStart{}
	}
	if t.known[topic] == nil {
		t.known[topic] = &topicStart{turn: make(chan struct{}, 1)}
	}
	return t.known[topic]
}

// get returns what is stored, after proposing what resolve says if this process
// has not asked yet. Lanes of one topic wait for each other here; after an error
// the next one asks again.
func (t *topicStart) get(ctx context.Context, resolve func() (TopicStart, error)) (TopicStart, error) {
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return TopicStart{}, errGone
	}
	if t.stored == nil {
		s, err := resolve()
		if err != nil {
			return TopicStart{}, err
		}
		t.stored = &s
	}
	return *t.stored, nil
}

// start returns where the lane's partition begins if the sink holds no position
// for it: where the pipeline's first start put it, or earliest for a partition
// born later, so that none of its records is missed.
func (l *lane[W]) start(ctx context.Context) (offsetstore.Position, error) {
	stored, err := l.e.topics.of(l.tp.Topic).get(ctx, func() (TopicStart, error) {
		propose, err := l.propose(ctx)
		if err != nil {
			return TopicStart{}, err
		}
		return l.e.sink.Topic(ctx, l.e.pipeline.name, l.tp.Topic, propose)
	})
	if err != nil {
		return offsetstore.Position{}, err
	}
	l.topicID = stored.TopicID
	if offset, ok := stored.Starts[l.tp.Partition]; ok {
		return offsetstore.Position{Offset: offset, LeaderEpoch: offsetstore.NoLeaderEpoch, TopicID: stored.TopicID}, nil
	}
	return l.bornLater(ctx)
}

// propose resolves the start rules. An exact offset that the log does not hold is
// a mistake at the first start only: later the log moves on, and the rules do not
// count any more.
func (l *lane[W]) propose(ctx context.Context) (TopicStart, error) {
	propose, err := l.part.Resolve(ctx, l.e.cfg.Start)
	var pe *PositionError
	if !errors.As(err, &pe) {
		return propose, err
	}
	began, err := l.topicBegan(ctx)
	if err != nil {
		return TopicStart{}, err
	}
	if !began {
		return TopicStart{}, fmt.Errorf("%w: Config.Start asks for offset %d of %s, but the log holds %d..%d", ErrConfig, pe.Position.Offset, pe.TopicPartition, pe.LogStart, pe.LogEnd)
	}
	return l.part.Resolve(ctx, offsetstore.StartRules{}) // not stored: something is already
}

// topicBegan reports whether the sink is known to hold a position in the topic,
// and so the topic's starts, which are stored before.
func (l *lane[W]) topicBegan(ctx context.Context) (bool, error) {
	lister, ok := l.e.sink.(PositionLister)
	if !ok {
		return false, nil
	}
	stored, err := lister.Positions(ctx, l.e.pipeline.name)
	return slices.ContainsFunc(stored, func(s StoredPosition) bool { return s.Topic == l.tp.Topic }), err
}

// bornLater is the start of a partition that did not exist at the first start. It
// carries the topic's identity as it is now: if the topic was made again since, the
// partition may be new with it, and nothing of it was ever processed.
func (l *lane[W]) bornLater(ctx context.Context) (offsetstore.Position, error) {
	now, err := l.part.Resolve(ctx, offsetstore.StartRules{})
	if err != nil {
		return offsetstore.Position{}, err
	}
	offset, ok := now.Starts[l.tp.Partition]
	if !ok {
		return offsetstore.Position{}, fmt.Errorf("%w: the source does not list partition %s", ErrUnavailable, l.tp)
	}
	l.log.Info("this partition was added after the pipeline's first start: if it has no position yet it begins at earliest, whatever the start rules say", "offset", offset)
	return offsetstore.Position{Offset: offset, LeaderEpoch: offsetstore.NoLeaderEpoch, TopicID: now.TopicID}, nil
}
