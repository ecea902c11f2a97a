package cassandra

import (
	"maps"
	"slices"
	"testing"

	"github.com/gocql/gocql"
)

// simTotals counts what happened in histories: a simulation in which nothing goes
// wrong proves nothing.
type simTotals map[string]int

// simFloors is how much of everything must happen in a thousand histories, about
// half of what does.
var simFloors = map[string]int{
	"commits delayed":                      100,
	"commits held back":                    100,
	"commits lost on the way":              100,
	"commits refused":                      1500,
	"commits without an answer":            100,
	"crashes":                              1000,
	"flushes":                              400,
	"outcomes unknown at first":            300,
	"resets":                               700,
	"roll-forwards":                        1000,
	"saves":                                2500,
	"saves fenced":                         1500,
	"takeovers":                            5000,
	"takeovers while the owner was paused": 1000,
}

func (t simTotals) add(o simTotals) {
	for what, n := range o {
		t[what] += n
	}
}

// countAnswer counts a statement that was answered.
func (t simTotals) countAnswer(op *simOp, v any) {
	if op.commit && v == false {
		t["commits refused"]++
	}
}

// countFault counts a statement that went wrong.
func (t simTotals) countFault(op *simOp, kind int) {
	if op.commit {
		t["commits "+[]string{"lost on the way", "without an answer", "delayed", "held back"}[kind]]++
	}
}

// countTakeover counts a claim of a lane that former owned.
func (w *simWorld) countTakeover(former gocql.UUID) {
	w.totals["takeovers"]++
	if slices.ContainsFunc(w.held, func(h heldBack) bool { return h.op.proc.id == int(former[0]) }) {
		w.totals["takeovers while the owner was paused"]++
	}
}

// sum completes the totals of a history that has ended.
func (w *simWorld) sum() simTotals {
	w.totals["histories"]++
	for _, p := range w.procs {
		s := p.engine.counters.stats()
		w.totals["saves fenced"] += int(s.Fenced)
		w.totals["outcomes unknown at first"] += int(s.UnknownOutcomes)
		w.totals["roll-forwards"] += int(s.RollForwards)
	}
	return w.totals
}

// check prints the totals, and fails where too little happened. A few histories
// prove nothing either way.
func (t simTotals) check(tb testing.TB) {
	for _, what := range slices.Sorted(maps.Keys(t)) {
		tb.Logf("%7d %s", t[what], what)
	}
	for _, what := range slices.Sorted(maps.Keys(simFloors)) {
		if least := simFloors[what] * t["histories"] / 1000; t["histories"] >= 200 && t[what] < least {
			tb.Errorf("%s: %d, want %d at least: what the simulation is to test hardly happens", what, t[what], least)
		}
	}
}
