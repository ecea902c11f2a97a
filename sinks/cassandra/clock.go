package cassandra

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/lockstep-stream/lockstep/framework"
)

// clock is the time as one process sees it. Tests replace it, to give processes
// clocks that disagree.
type clock struct {
	now    func() time.Time
	wait   func(ctx context.Context, d time.Duration) error // nil: sleep uses a timer
	jitter float64                                          // share by which back-off varies, 0 in tests that must repeat
}

func systemClock() clock { return clock{now: time.Now, jitter: backoff.DefaultRandomizationFactor} }

// micros is the time as a Cassandra write timestamp.
func (c clock) micros() int64 { return c.now().UnixMicro() }

// sleep waits for d, or until ctx ends, and returns the cause then.
func (c clock) sleep(ctx context.Context, d time.Duration) error {
	if c.wait != nil {
		return c.wait(ctx, d)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// backoff returns delays that double from first to most. Not for concurrent use.
func (c clock) backoff(first, most time.Duration) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = first, most
	b.Multiplier, b.RandomizationFactor = 2, c.jitter
	return b
}

// lease is permission to write to the users' tables for a limited time. Its start
// is when the statement was *sent* that showed we may: a process that was paused
// before it read the answer must find its lease older, not fresh.
type lease struct {
	clock clock
	start time.Time
	limit time.Duration
	trust func() error // whether what showed it is still believed; nil: always
}

// over returns why nothing may be written any more, or nil.
func (l lease) over() error {
	if l.left() <= 0 {
		return errLeaseOver
	}
	if l.trust != nil {
		return l.trust()
	}
	return nil
}

// left returns what remains, by the faster of the wall clock and the monotonic
// one: the former counts the time a suspended machine sleeps, the latter is not
// fooled when the wall clock is set back.
func (l lease) left() time.Duration {
	now := l.clock.now()
	return l.limit - max(now.Sub(l.start), now.Round(0).Sub(l.start.Round(0)))
}

// checkClock refuses to write by a clock that is wrong. If the lane has used
// timestamps far ahead of ours, going on would stamp rows far in the future, where
// they beat every other program's writes.
func (e *engine) checkClock(ctx context.Context, highTS int64) error {
	now := e.clock.now()
	if err := e.guard.check(ctx, now, now.Sub(e.guard.opened)); err != nil {
		return err
	}
	ahead := time.Duration(highTS-now.UnixMicro()) * time.Microsecond
	if ahead <= e.tuning.aheadLimit {
		return nil
	}
	return fmt.Errorf("%w: the lane's last timestamp is %v ahead of this host's clock (limit %v): "+
		"the clock of this host or of an earlier owner's is wrong; set the clocks right",
		framework.ErrUnavailable, ahead.Round(time.Second), e.tuning.aheadLimit)
}

// clockGuard notices when this host's clock was set while we ran, and then
// compares it with the servers' again.
type clockGuard struct {
	compare func(context.Context) error // nil: never
	opened  time.Time

	mu  sync.Mutex
	set time.Duration // by how much the clock was set since opened, and found right
}

// check is given the time, and for how long we have run by the monotonic clock,
// which nobody can set.
func (g *clockGuard) check(ctx context.Context, now time.Time, ran time.Duration) error {
	if g.compare == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	set := now.Round(0).Sub(g.opened.Round(0)) - ran
	if (set - g.set).Abs() < warnClockSkew {
		return nil
	}
	if err := g.compare(ctx); err != nil {
		return fmt.Errorf("this host's clock was set by %v while the program ran: %w", (set - g.set).Round(time.Millisecond), err)
	}
	g.set = set
	return nil
}
