package frameworktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// RunUntilCrash runs p on all of log and on sink until a lane has reached point for
// the nth time, counted over all partitions from 1, and stops there the way a
// killed process stops: from that moment no call reaches the sink, nothing is
// released, and nothing is mirrored. A call that was under way ends as its sink
// ends one whose context is cancelled. It returns nil when all of the run's
// goroutines have ended.
//
// If everything is saved before, or the runner fails by itself, the error says so.
// cfg.Hooks.Reached is called, too; the other hooks of cfg may see what a killed
// process would not have shown, such as lanes that end.
func RunUntilCrash[W any](ctx context.Context, p *framework.Pipeline[W], log *Log, sink framework.Sink[W], cfg framework.Config, point framework.Point, nth int) error {
	c := &crash{countdown: newCountdown(point, nth), dead: make(chan struct{})}
	cfg.Hooks.Reached = c.hook(cfg.Hooks.Reached)
	source := NewSource(log)
	r, err := framework.NewRunner(p, source, &mortal[W]{sink, c}, cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		select {
		case <-c.dead:
			source.loseAll()
			cancel()
		case <-ctx.Done():
		}
	})
	err = RunUntilSaved(ctx, r, log)
	switch {
	case c.crashed():
		return nil
	case err == nil:
		return fmt.Errorf("everything was saved before %q was reached %d times", point, nth)
	}
	return err
}

// KillAt returns a function for Hooks.Reached that kills the process, as SIGKILL
// does, when a lane has reached point for the nth time, counted over all
// partitions from 1.
func KillAt(point framework.Point, nth int) func(framework.PointEvent) {
	c := newCountdown(point, nth)
	return func(e framework.PointEvent) {
		if !c.last(e) {
			return
		}
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		if err != nil {
			panic(fmt.Sprintf("the process could not be killed: %v", err)) // and ends so
		}
		select {} // it takes the system a moment
	}
}

// countdown finds the nth time that a point is reached.
type countdown struct {
	point framework.Point
	left  atomic.Int64
}

func newCountdown(point framework.Point, nth int) *countdown {
	c := &countdown{point: point}
	c.left.Store(int64(nth))
	return c
}

func (c *countdown) last(e framework.PointEvent) bool {
	return e.Point == c.point && c.left.Add(-1) == 0
}

// crash is the death of one run.
type crash struct {
	*countdown
	dead chan struct{} // closed at the crash
}

func (c *crash) crashed() bool {
	select {
	case <-c.dead:
		return true
	default:
		return false
	}
}

// hook ends the goroutine that reaches the point, and any that comes to one later.
func (c *crash) hook(next func(framework.PointEvent)) func(framework.PointEvent) {
	return func(e framework.PointEvent) {
		if !c.crashed() && next != nil {
			next(e)
		}
		if c.last(e) {
			close(c.dead)
		}
		if c.crashed() {
			runtime.Goexit()
		}
	}
}

// mortal is a sink as long as its process lives.
type mortal[W any] struct {
	framework.Sink[W]
	crash *crash
}

var errDead = fmt.Errorf("the process has crashed: %w", framework.ErrClosed)

func (m *mortal[W]) Topic(ctx context.Context, pipeline, topic string, propose framework.TopicStart) (framework.TopicStart, error) {
	if m.crash.crashed() {
		return framework.TopicStart{}, errDead
	}
	return m.Sink.Topic(ctx, pipeline, topic, propose)
}

func (m *mortal[W]) Claim(ctx context.Context, pipeline string, tp offsetstore.TopicPartition, start offsetstore.Position) (framework.Claim[W], error) {
	if m.crash.crashed() {
		return nil, errDead
	}
	c, err := m.Sink.Claim(ctx, pipeline, tp, start)
	if err != nil {
		return nil, err
	}
	return &mortalClaim[W]{c, m.crash}, nil
}

// Positions passes on the one power that a runner asks a sink for.
func (m *mortal[W]) Positions(ctx context.Context, pipeline string) ([]framework.StoredPosition, error) {
	lister, ok := m.Sink.(framework.PositionLister)
	if !ok {
		return nil, errors.New("the sink cannot list positions")
	}
	return lister.Positions(ctx, pipeline)
}

type mortalClaim[W any] struct {
	framework.Claim[W]
	crash *crash
}

func (c *mortalClaim[W]) Load(ctx context.Context, keys []framework.StateKey) ([][]byte, error) {
	if c.crash.crashed() {
		return nil, errDead
	}
	return c.Claim.Load(ctx, keys)
}

func (c *mortalClaim[W]) Save(ctx context.Context, b *framework.Batch[W]) error {
	if c.crash.crashed() {
		return &framework.SaveError{Outcome: framework.NotSaved, ClaimSpent: true, Err: errDead}
	}
	return c.Claim.Save(ctx, b)
}

func (c *mortalClaim[W]) Release(ctx context.Context) error {
	if c.crash.crashed() {
		return errDead
	}
	return c.Claim.Release(ctx)
}
