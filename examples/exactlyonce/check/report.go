package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Report is the outcome of [Model.Compare].
type Report struct {
	Produced       int // events
	Saved          int // rows in events
	Lost           int // events without a row
	Duplicated     int // rows beyond an event's first
	Changed        int // events whose row differs from what was produced
	Unknown        int // rows of events that were never produced
	AlertsWrong    int // counts in alerts that are not what they should be
	PositionsWrong int // positions that are not at the end of the log

	Positions   map[int32]int64 // by partition
	Differences []string        // the first of them, in words; at most 20

	totals map[SourceMinute]int64
}

// maxDifferences bounds how many differences are kept in words: when something
// is wrong in general, the first are as good as all.
const maxDifferences = 20

func (r *Report) differ(format string, args ...any) {
	if len(r.Differences) < maxDifferences {
		r.Differences = append(r.Differences, fmt.Sprintf(format, args...))
	}
}

// OK reports whether the tables hold exactly what was produced.
func (r *Report) OK() bool {
	return r.Saved == r.Produced &&
		r.Lost+r.Duplicated+r.Changed+r.Unknown+r.AlertsWrong+r.PositionsWrong == 0
}

// String is the report in one line.
func (r *Report) String() string {
	if r.OK() {
		return fmt.Sprintf("exactly once: %d produced, %d saved, 0 lost, 0 duplicated, alerts match", r.Produced, r.Saved)
	}
	return fmt.Sprintf("NOT exactly once: %d produced, %d saved, %d lost, %d duplicated, %d changed, %d unknown, %d alerts wrong, %d positions wrong",
		r.Produced, r.Saved, r.Lost, r.Duplicated, r.Changed, r.Unknown, r.AlertsWrong, r.PositionsWrong)
}

// SourceMinute is what a total of alerts is about.
type SourceMinute struct {
	Source string
	Minute time.Time
}

// Total is the number of alerts of a source within a minute, over all
// partitions.
type Total struct {
	SourceMinute
	Alerts int64
}

func (r *Report) addTotal(k alertKey, n int64) {
	r.totals[SourceMinute{k.source, time.Unix(k.minute*60, 0).UTC()}] += n
}

// Top returns the n greatest totals that are saved, greatest first.
func (r *Report) Top(n int) []Total {
	all := make([]Total, 0, len(r.totals))
	for k, alerts := range r.totals {
		all = append(all, Total{k, alerts})
	}
	slices.SortFunc(all, func(a, b Total) int {
		return cmp.Or(cmp.Compare(b.Alerts, a.Alerts), a.Minute.Compare(b.Minute), cmp.Compare(a.Source, b.Source))
	})
	return all[:min(n, len(all))]
}
