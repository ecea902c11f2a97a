package sinktest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

func concurrencyCases[W any]() []testCase[W] {
	return []testCase[W]{{
		name: "concurrent_lanes",
		rule: "all methods of a Sink may be called from many goroutines: many partitions are claimed and saved at once",
		run:  concurrentLanes[W],
	}}
}

// concurrentLanes runs many lanes beside each other through two handles, each
// lane's own calls in order.
func concurrentLanes[W any](e *env[W]) {
	const lanes, steps = 32, 4
	sinks := []framework.Sink[W]{e.open(), e.open()}
	errs := make([]error, lanes)
	var wg sync.WaitGroup
	for i := range lanes {
		wg.Go(func() { errs[i] = e.runLane(sinks[i%2], e.lane(int32(i)), steps) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		e.fatalf("with %d lanes at once: %v", lanes, err)
	}
	s := e.open()
	for i := range lanes {
		l := e.lane(int32(i))
		e.wantStepsOf(e.claimOn(s, l, offsetstore.At(0)), l, steps)
	}
}

// runLane is what one lane does. It reports by its error, since it does not run
// on the case's own goroutine.
func (e *env[W]) runLane(s framework.Sink[W], l lane, steps int64) error {
	if _, err := s.Topic(e.ctx, l.pipeline, l.tp.Topic, topicStart(1)); err != nil {
		return fmt.Errorf("Topic: %w", err)
	}
	c, err := s.Claim(e.ctx, l.pipeline, l.tp, offsetstore.At(0))
	if err != nil {
		return fmt.Errorf("Claim: %w", err)
	}
	for n := int64(1); n <= steps; n++ {
		if e.h.Guarantee.State {
			if _, err := c.Load(e.ctx, []framework.StateKey{stepState()}); err != nil {
				return fmt.Errorf("Load: %w", err)
			}
		}
		if err := c.Save(e.ctx, e.stepBatch(l, n)); err != nil {
			return err
		}
	}
	return c.Release(e.ctx)
}
