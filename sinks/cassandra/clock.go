package cassandra

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// clock is the time as one process sees it. Tests replace it, to give processes
// clocks that disagree.
type clock struct {
	now    func() time.Time
	jitter float64 // share by which back-off varies, 0 in tests that must repeat
}

func systemClock() clock { return clock{now: time.Now, jitter: backoff.DefaultRandomizationFactor} }

// micros is the time as a Cassandra write timestamp.
func (c clock) micros() int64 { return c.now().UnixMicro() }

// sleep waits for d, or until ctx ends, and returns the cause then.
func (c clock) sleep(ctx context.Context, d time.Duration) error {
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
}

// left returns what remains, by the faster of the wall clock and the monotonic
// one: the former counts the time a suspended machine sleeps, the latter is not
// fooled when the wall clock is set back.
func (l lease) left() time.Duration {
	now := l.clock.now()
	return l.limit - max(now.Sub(l.start), now.Round(0).Sub(l.start.Round(0)))
}
