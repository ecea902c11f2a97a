package simulation

import (
	"flag"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
)

var (
	runs     = flag.Int("simulation.runs", defaultRuns, "how many histories to live through")
	oneSeed  = flag.Int("simulation.seed", -1, "live only through this history, and log it")
	logLevel slog.Level
)

func init() {
	flag.TextVar(&logLevel, "simulation.log", slog.LevelInfo, "from which level on -simulation.seed logs")
}

// floors are how often at least each thing has to have happened in a hundred
// histories: a campaign that attacks nothing shows nothing.
var floors = totals{
	"claims whose answer was lost":         30,
	"compactions":                          20,
	"dead letters":                         1500,
	"elections of all leaders":             20,
	"failed claims":                        100,
	"failed loads":                         100,
	"fenced saves":                         20,
	"kills":                                80,
	"late requests that took effect":       3,
	"moves of the coordinator":             30,
	"offsets without a record":             2000,
	"partitions added":                     30,
	"pauses":                               80,
	"records":                              30000,
	"saves that failed":                    60,
	"takeovers while the owner was paused": 80,
	"unknown: answer lost":                 30,
	"unknown: request late":                30,
	"unknown: request lost":                30,
	"answers with an error of the broker":  60,
	"cuts of all connections":              30,
	"isolations":                           30,
}

func TestWholeRuns(t *testing.T) {
	first, n := 0, *runs
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

// liveThrough lives one history in a time of its own.
func liveThrough(t *testing.T, seed uint64, b breakage) (w *world) {
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(t, seed, b)
		w.run()
	})
	return w
}
