package memory

import (
	"context"
	"fmt"

	"github.com/lockstep-stream/lockstep/framework"
)

// Reset moves a position that is r.From to r.To, and fences whoever owns the lane.
func (s *Sink[W]) Reset(ctx context.Context, r framework.Reset) error {
	var refused error
	err := s.enter(ctx, func(context.Context) error { return nil }, func() { refused = s.store.reset(r) })
	if err == nil {
		err = refused
	}
	if err != nil {
		return fmt.Errorf("memory: pipeline %q: reset of %s: %w", r.Pipeline, r.TopicPartition, err)
	}
	return nil
}

// reset is what Reset does under the store's lock.
func (s *Store[W]) reset(r framework.Reset) error {
	l := s.lanes[laneKey{r.Pipeline, r.TopicPartition}]
	switch {
	case l == nil:
		return fmt.Errorf("%w: no position is stored", framework.ErrRefused)
	case l.progress.Position != r.From:
		return fmt.Errorf("%w: stored is %v, not %v", framework.ErrRefused, l.progress.Position, r.From)
	}
	l.progress.Position = r.To
	l.claim, l.owner = 0, ""
	if r.DropState {
		clear(l.state)
	}
	return nil
}
