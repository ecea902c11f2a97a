package cassandra

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

// A seed gives the same history wherever and beside whatever it runs. A failure that
// cannot be seen again cannot be understood.
func TestSeedGivesTheSameHistoryBesideABusyProgram(t *testing.T) {
	const seeds = 25
	histories := make([]string, seeds)
	for seed := range histories {
		histories[seed] = simulate(t, uint64(seed), simBroken{}, false).text
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	stop := beBusy()
	defer stop()
	for seed := range histories {
		runtime.GOMAXPROCS(1 + seed%7)
		if again := simulate(t, uint64(seed), simBroken{}, false).text; again != histories[seed] {
			t.Errorf("history %d is another the second time:\n%s", seed, difference(histories[seed], again))
		}
	}
}

// beBusy keeps the scheduler and the collector at work until stop is called.
func beBusy() (stop func()) {
	var over atomic.Bool
	done := make(chan struct{})
	const workers = 2
	for range workers {
		go func() {
			defer func() { done <- struct{}{} }()
			for n := 1; !over.Load(); n++ {
				garbage := make([]byte, n%50_000)
				_ = append(garbage, 0)
				if n%64 == 0 {
					runtime.Gosched()
				}
			}
		}()
	}
	return func() {
		over.Store(true)
		for range workers {
			<-done
		}
	}
}

// difference shows where two histories part.
func difference(a, b string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			return strings.Join(as[max(0, i-5):i+1], "\n") + "\nor\n" + bs[i]
		}
	}
	return "one is longer than the other"
}
