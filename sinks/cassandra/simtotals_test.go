package cassandra

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
)

// simTotals counts what happened in histories: a simulation in which nothing goes
// wrong proves nothing.
type simTotals map[string]int

// simFloors is how much of everything must happen in a thousand histories, about
// half of what does.
var simFloors = map[string]int{
	"commits delayed":                      140,
	"commits doubled":                      125,
	"commits held back":                    130,
	"commits lost on the way":              130,
	"commits refused":                      2800,
	"commits without an answer":            125,
	"crashes":                              950,
	"dead letters":                         400,
	"deletes purged":                       220,
	"fenced at once: not saved":            2700,
	"flushes":                              450,
	"late records":                         100,
	"log gaps":                             1000,
	"nights":                               300,
	"outcomes unknown at first":            430,
	"pauses":                               800,
	"records":                              3000,
	"resets":                               800,
	"roll-forwards":                        1100,
	"rows deleted by others":               330,
	"saved, not applied in time":           75,
	"saves":                                3100,
	"saves fenced":                         2900,
	"takeovers":                            10000,
	"takeovers while the owner was paused": 1800,
	"unknown at first, fenced in the end: not saved": 100,
	"unknown at first, fenced in the end: saved":     3,
	"unknown at first, fenced in the end: unknown":   85,
	"unknown at first, saved in the end":             190,
	"unknown, given up":                              85,
}

func (t simTotals) add(o simTotals) {
	for what, n := range o {
		t[what] += n
	}
}

// countAnswer counts a statement that was answered.
func (t simTotals) countAnswer(op *simOp) {
	if op.commit && op.result == false {
		t["commits refused"]++
	}
}

// countFault counts a statement that went wrong.
func (t simTotals) countFault(op *simOp, fault int) {
	if op.commit {
		t["commits "+simFaults[fault]]++
	}
}

// countSave counts a save that took effect, and what was in it.
func (l *simLane) countSave(c *simCommit) {
	l.w.count("saves", 1)
	for o := c.from; o < c.to; o++ {
		switch r, ok := l.record(o); {
		case !ok:
			l.w.count("log gaps", 1)
		case r.poison:
			l.w.count("dead letters", 1)
		default:
			l.w.count("records", 1)
		}
	}
	if late := l.now.data.late - l.before.data.late; late > 0 {
		l.w.count("late records", int(late))
	}
}

// countTakeover counts a claim of a lane that former owned.
func (w *simWorld) countTakeover(former gocql.UUID) {
	w.count("takeovers", 1)
	p := w.procs[former[0]]
	held := slices.ContainsFunc(w.waiting, func(op *simOp) bool { return op.kind == simAnswer && op.proc == p })
	if !p.dead && (held || p.paused.After(time.Now())) {
		w.count("takeovers while the owner was paused", 1)
	}
}

// countClaimError counts why a claim failed.
func (w *simWorld) countClaimError(err error) {
	switch {
	case errors.Is(err, errDuel):
		w.count("claims lost to others", 1)
	case errors.Is(err, framework.ErrClosed), errors.Is(err, errLost):
	default:
		w.count("claims that failed otherwise", 1)
	}
}

// outcomeOf names what a call has returned, in words that no pointer or clock is in.
func outcomeOf(err error) string {
	if err == nil {
		return "done"
	}
	var se *framework.SaveError
	text := "failed"
	if errors.As(err, &se) {
		text = se.Outcome.String()
	}
	for _, reason := range []error{framework.ErrFenced, framework.ErrUnknown, framework.ErrNotApplied, framework.ErrCorrupt, framework.ErrRefused, framework.ErrUnavailable, framework.ErrClosed} {
		if errors.Is(err, reason) {
			text += ", " + reason.Error()
		}
	}
	return text
}

// countResults counts how the saves ended whose first answer did not tell, and the
// others that failed.
func (w *simWorld) countResults() {
	for _, r := range w.results {
		b := w.batches[r.batch]
		var se *framework.SaveError
		switch {
		case r.err == nil && b.unanswered:
			w.totals["unknown at first, saved in the end"]++
		case r.err == nil || !errors.As(r.err, &se):
		case errors.Is(r.err, framework.ErrUnknown):
			w.totals["unknown, given up"]++
		case errors.Is(r.err, framework.ErrNotApplied):
			w.totals["saved, not applied in time"]++
		case errors.Is(r.err, framework.ErrFenced) && b.unanswered:
			w.totals["unknown at first, fenced in the end: "+se.Outcome.String()]++
		case errors.Is(r.err, framework.ErrFenced):
			w.totals["fenced at once: "+se.Outcome.String()]++
		}
	}
}

// countProc counts what a process did in its life.
func (w *simWorld) countProc(p *simProc) {
	s := p.engine.counters.stats()
	w.count("saves fenced", int(s.Fenced))
	w.count("outcomes unknown at first", int(s.UnknownOutcomes))
	w.count("roll-forwards", int(s.RollForwards))
}

// sum completes the totals of a history that has ended.
func (w *simWorld) sum() simTotals {
	w.totals["histories"]++
	for _, p := range w.procs {
		if !p.dead {
			w.countProc(p)
		}
	}
	w.countResults()
	return w.totals
}

// check prints the totals, and fails where too little happened. A few histories
// prove nothing either way.
func (t simTotals) check(tb testing.TB) {
	for _, what := range slices.Sorted(maps.Keys(t)) {
		tb.Logf("%9d %s", t[what], what)
	}
	for _, what := range slices.Sorted(maps.Keys(simFloors)) {
		if least := simFloors[what] * t["histories"] / 1000; t["histories"] >= 200 && t[what] < least {
			tb.Errorf("%s: %d, want %d at least: what the simulation is to test hardly happens", what, t[what], least)
		}
	}
}
