package cassandra

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
)

// simClock is the clock of one process: the time of day, which is wrong by up to two
// minutes, and the monotonic clock. Depending on the process the former is set, back
// too, or stands still for minutes; or the latter stands still, as it does while a
// machine is suspended. Never both: then no process could keep to a time limit.
type simClock struct {
	seed  uint64
	kind  uint64
	began time.Time

	mu     sync.Mutex
	phases int           // that asleep counts
	asleep time.Duration // for which the monotonic clock stood still
}

const simPhase = 3 * time.Minute

// Kinds of clocks.
const (
	clockSteady = iota
	clockSet
	clockSuspended
	clockKinds
)

func newSimClock(seed uint64) *simClock {
	return &simClock{seed: seed, kind: mix(seed) % clockKinds, began: time.Now()}
}

// offset is how wrong the time of day is in a phase.
func (c *simClock) offset(phase uint64) time.Duration {
	if c.kind != clockSet {
		phase = 0
	}
	const most = 2 * time.Minute
	return time.Duration(mix(c.seed+phase)%uint64(2*most)) - most
}

// still reports whether a clock stands still during a phase.
func (c *simClock) still(phase uint64) bool { return mix(^c.seed+phase)%4 == 0 }

// now is what the process is told. It depends on nothing but the true time.
func (c *simClock) now() time.Time {
	ran := time.Since(c.began)
	phase := uint64(ran / simPhase)
	wall := ran + c.offset(phase)
	mono := ran
	switch c.kind {
	case clockSet:
		if c.still(phase) {
			wall = time.Duration(phase)*simPhase + c.offset(phase)
		}
	case clockSuspended:
		mono -= c.suspended(phase, ran%simPhase)
	}
	return timeOf(c.began.Add(wall), mono)
}

// suspended is for how long the monotonic clock stood still, rest into a phase.
func (c *simClock) suspended(phase uint64, rest time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ; c.phases < int(phase); c.phases++ {
		if c.still(uint64(c.phases)) {
			c.asleep += simPhase
		}
	}
	if c.still(phase) {
		return c.asleep + rest
	}
	return c.asleep
}

// timeOf makes a time whose two readings disagree, as those of a clock that was set.
// The time package offers no way: it takes both from the system. Its layout is this
// one since Go 1.9, and the test below notices when that ends.
func timeOf(wall time.Time, mono time.Duration) time.Time {
	const hasMonotonic = 1 << 63
	t := wall.Round(0)
	parts := (*struct {
		wall uint64
		ext  int64
		loc  *time.Location
	})(unsafe.Pointer(&t))
	parts.wall = hasMonotonic | uint64(t.Unix()-unix1885)<<30 | uint64(t.Nanosecond())
	parts.ext = int64(mono) + 1
	return t
}

var unix1885 = time.Date(1885, 1, 1, 0, 0, 0, 0, time.UTC).Unix()

func TestSimulatedClockHasTwoReadings(t *testing.T) {
	noon := time.Date(2030, 6, 1, 12, 0, 0, 5, time.UTC)
	a, b := timeOf(noon, time.Hour), timeOf(noon.Add(-time.Minute), 3*time.Hour)
	if got := b.Sub(a); got != 2*time.Hour {
		t.Errorf("the monotonic clock went by %v, want 2h", got)
	}
	if got := b.Round(0).Sub(a.Round(0)); got != -time.Minute {
		t.Errorf("the time of day went by %v, want -1m", got)
	}
	if !a.Equal(noon) || a.UnixMicro() != noon.UnixMicro() {
		t.Errorf("the time of day is %v, want %v", a, noon)
	}
}

// A process that keeps to a lease must never take more time than it has, whichever of
// its clocks is wrong.
func TestLeaseIsKeptByEveryClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(60) {
			c := newSimClock(seed)
			for range 20 {
				l := lease{clock: clock{now: c.now}, start: c.now(), limit: 10 * time.Minute}
				began := time.Now()
				for l.left() > 0 {
					time.Sleep(7 * time.Second)
				}
				if took := time.Since(began); took > 10*time.Minute+7*time.Second {
					t.Errorf("clock %d (kind %d): the lease of 10m lasted %v", seed, c.kind, took)
				}
			}
		}
	})
}
