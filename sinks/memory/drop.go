package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// DropDeadLetters removes the letters of tp that are as given.
func (s *Sink[W]) DropDeadLetters(ctx context.Context, pipeline string, tp offsetstore.TopicPartition, letters []framework.DeadLetter) error {
	err := s.enter(ctx, func(context.Context) error { return nil }, func() {
		if l := s.store.lanes[laneKey{pipeline, tp}]; l != nil {
			l.dead = slices.DeleteFunc(l.dead, func(d framework.DeadLetter) bool {
				return slices.ContainsFunc(letters, func(given framework.DeadLetter) bool { return same(d, given) })
			})
		}
	})
	if err != nil {
		return fmt.Errorf("memory: pipeline %q: drop dead letters of %s: %w", pipeline, tp, err)
	}
	return nil
}

func same(a, b framework.DeadLetter) bool {
	return a.Offset == b.Offset && a.Stage == b.Stage && a.FailedAt.UnixMilli() == b.FailedAt.UnixMilli()
}
