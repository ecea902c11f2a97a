package simulation

import (
	"flag"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

var (
	runs     = flag.Int("simulation.runs", defaultRuns, "how many histories to live through")
	firstRun = flag.Int("simulation.first", 0, "the seed of the first of them")
	oneSeed  = flag.Int("simulation.seed", -1, "live only through this history, and log it")
	logLevel slog.Level
)

func init() {
	flag.TextVar(&logLevel, "simulation.log", slog.LevelInfo, "from which level on -simulation.seed logs")
}

// floors are how often at least each thing has to have happened in a hundred
// histories: a campaign that attacks nothing shows nothing.
var floors = totals{
	"answers with an error of the broker":  80,
	"claims whose answer was lost":         40,
	"compactions":                          20,
	"cuts of all connections":              30,
	"dead letters":                         1500,
	"elections of all leaders":             20,
	"failed claims":                        150,
	"failed loads":                         150,
	"fenced saves":                         18,
	"isolations":                           30,
	"kills":                                80,
	"late requests that took effect":       3,
	"losses of a broker":                   20,
	"moves of a partition":                 20,
	"moves of the coordinator":             30,
	"offsets without a record":             2500,
	"partitions added":                     30,
	"pauses":                               25,
	"pauses beyond the session":            45,
	"rebalances":                           450,
	"records":                              30000,
	"saves that failed":                    35,
	"slow calls":                           250,
	"takeovers while the owner was paused": 80,
	"transactions":                         80,
	"unknown: answer lost":                 20,
	"unknown: request late":                20,
	"unknown: request lost":                20,
}

func TestWholeRuns(t *testing.T) {
	first, n := *firstRun, *runs
	if *oneSeed >= 0 {
		first, n = *oneSeed, 1
	}
	all := totals{}
	t.Run("history", func(t *testing.T) {
		for seed := first; seed < first+n; seed++ {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				w := liveThrough(t, uint64(seed), breakage{})
				for _, fault := range w.faults {
					t.Error(fault)
				}
				all.addAll(w.db.totals)
			})
		}
	})
	t.Logf("%d histories\n%s", n, all)
	for name, floor := range floors {
		if want := floor * n / 100; all[name] < want && n >= 40 {
			t.Errorf("%q happened %d times, want %d and more", name, all[name], want)
		}
	}
}

// What goes wrong, and when, is the seed's to decide, whatever the scheduler does.
func TestScheduleReplays(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for seed := range uint64(3) {
		once := liveThrough(t, seed, breakage{}).carriedOut
		runtime.GOMAXPROCS(1 + int(seed))
		again := liveThrough(t, seed, breakage{}).carriedOut
		if len(once) == 0 || !slices.Equal(once, again) {
			t.Errorf("history %d was attacked by\n%s\nand then by\n%s", seed, strings.Join(once, "\n"), strings.Join(again, "\n"))
		}
	}
}

// liveThrough lives one history in a time of its own.
func liveThrough(t *testing.T, seed uint64, b breakage) (w *world) {
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(t, seed, b)
		w.run()
	})
	return w
}
