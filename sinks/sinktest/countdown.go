package sinktest

import (
	"context"
	"sync"

	"github.com/lockstep-stream/lockstep/framework"
)

// countdown is a context that makes something happen when it has been looked at
// a given number of times. Running a call again and again with one look more
// each time disturbs it at every place where it looks, without any clock.
type countdown struct {
	context.Context
	event func()

	mu    sync.Mutex
	looks int // how many are left
}

// Done counts as a look.
func (c *countdown) Done() <-chan struct{} {
	c.look()
	return c.Context.Done()
}

// Err counts as a look.
func (c *countdown) Err() error {
	c.look()
	return c.Context.Err()
}

func (c *countdown) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.looks--; c.looks == -1 {
		c.event()
	}
}

// ended reports whether the count has run out.
func (c *countdown) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.looks < 0
}

// maxLooks bounds a sweep: a sink may look at its context for every row.
const maxLooks = 40

// sweepCancel runs call with a context that is cancelled at its first look, its
// second, and so on, until a call has ended before its count. Each round has a
// number of its own.
func (e *env[W]) sweepCancel(call func(ctx context.Context, round int32)) {
	for round := range maxLooks {
		ctx, cancel := context.WithCancel(e.ctx)
		c := &countdown{Context: ctx, event: cancel, looks: round}
		call(c, int32(round))
		cancel()
		if !c.ended() {
			return
		}
	}
}

// sweepClose is sweepCancel with a Close of the sink in place of the cancel.
// Close runs beside the call, since the call may hold what Close waits for; it
// has returned when call's successor runs, but may come at any time during it.
func (e *env[W]) sweepClose(call func(ctx context.Context, s framework.Sink[W], round int32)) {
	for round := range maxLooks {
		s := e.open()
		closed := make(chan error, 1)
		closeSink := sync.OnceFunc(func() {
			go func() { closed <- s.Close(context.WithoutCancel(e.ctx)) }()
		})
		c := &countdown{Context: e.ctx, event: closeSink, looks: round}
		call(c, s, int32(round))
		closeSink()
		if err := <-closed; err != nil {
			e.fatalf("Close returned %v", err)
		}
		if !c.ended() {
			return
		}
	}
}
