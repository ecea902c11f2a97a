package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/examples/exactlyonce/app"
)

const topic = "t"

// tables is what a sink holds, in memory, to be damaged.
type tables struct {
	events    []app.EventRow
	alerts    []app.AlertRow
	positions map[int32]int64
	err       error
}

func (t *tables) Events(_ context.Context, _ string, visit func(app.EventRow)) error {
	for _, r := range t.events {
		visit(r)
	}
	return t.err
}

func (t *tables) Alerts(_ context.Context, _ string, visit func(app.AlertRow)) error {
	for _, r := range t.alerts {
		visit(r)
	}
	return nil
}

func (t *tables) Positions(context.Context, string) (map[int32]int64, error) {
	return t.positions, nil
}

// setup returns a model of 300 events on 3 partitions and tables that match it.
// Source "s" has alerts in two minutes, on every partition.
func setup() (*Model, *tables) {
	m, t := &Model{}, &tables{positions: map[int32]int64{}}
	counts := map[app.AlertRow]int64{}
	for i := range int64(300) {
		partition, offset := int32(i%3), i/3
		e := app.Event{ID: 1000 + i, TS: 1_767_323_045_000 + i*500, Source: "s", Client: "c", Health: int32(i % 20)}
		m.Add(partition, offset, e)
		at := time.UnixMilli(e.TS).UTC()
		t.events = append(t.events, app.EventRow{Topic: topic, Partition: partition, Offset: offset, ID: e.ID, TS: at, Source: "s", Client: "c", Health: e.Health})
		t.positions[partition] = offset + 1
		if e.Health < app.LowHealth {
			counts[app.AlertRow{Source: "s", TS: at.Truncate(time.Minute), Topic: topic, Partition: partition}]++
		}
	}
	for row, n := range counts {
		row.EventCount = n
		t.alerts = append(t.alerts, row)
	}
	return m, t
}

func compare(t *testing.T, m *Model, tb *tables) *Report {
	t.Helper()
	r, err := m.Compare(context.Background(), topic, tb)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTablesThatMatchAreExactlyOnce(t *testing.T) {
	m, tb := setup()
	r := compare(t, m, tb)
	if !r.OK() || len(r.Differences) > 0 {
		t.Errorf("%s: %q", r, r.Differences)
	}
	if want := "exactly once: 300 produced, 300 saved, 0 lost, 0 duplicated, alerts match"; r.String() != want {
		t.Errorf("got %q, want %q", r, want)
	}
	if len(tb.alerts) != 9 {
		t.Errorf("%d rows of alerts, want 3 minutes on 3 partitions", len(tb.alerts))
	}
}

// TestDamageIsReported changes one thing at a time and wants it counted, named
// and refused.
func TestDamageIsReported(t *testing.T) {
	cases := []struct {
		name   string
		damage func(*tables)
		want   Report // the counts that differ from 0, beside Produced
		says   string // part of a difference
	}{
		{"a row is dropped", func(t *tables) { t.events = slices.Delete(t.events, 7, 8) },
			Report{Saved: 299, Lost: 1}, "event 1007, produced at t/1@2, is not saved"},
		{"a row is doubled", func(t *tables) {
			again := t.events[7]
			again.Partition, again.Offset = 2, 500
			t.events = append(t.events, again)
		}, Report{Saved: 301, Duplicated: 1}, "event 1007 is saved again at t/2@500; it was produced once, at 1@2"},
		{"a row is doubled in place", func(t *tables) { t.events = append(t.events, t.events[7]) },
			Report{Saved: 301, Duplicated: 1}, "event 1007 is saved again at t/1@2"},
		{"one is dropped and one doubled", func(t *tables) { t.events[8] = t.events[7] },
			Report{Saved: 300, Lost: 1, Duplicated: 1}, "event 1008"},
		{"a row is changed", func(t *tables) { t.events[7].Health = 99 },
			Report{Saved: 300, Changed: 1}, "event 1007 is saved as {1@2"},
		{"a row's time is changed", func(t *tables) { t.events[7].TS = t.events[7].TS.Add(time.Millisecond) },
			Report{Saved: 300, Changed: 1}, "event 1007"},
		{"a row is at another offset", func(t *tables) { t.events[7].Offset = 77 },
			Report{Saved: 300, Changed: 1}, "1@77"},
		{"a row of nobody", func(t *tables) { t.events = append(t.events, app.EventRow{Topic: topic, ID: 5}) },
			Report{Saved: 301, Unknown: 1}, "event 5 at t/0@0 was never produced"},
		{"a total is one too high", func(t *tables) { t.alerts[3].EventCount++ },
			Report{Saved: 300, AlertsWrong: 1}, "events had low health"},
		{"a total is one too low", func(t *tables) { t.alerts[3].EventCount-- },
			Report{Saved: 300, AlertsWrong: 1}, "events had low health"},
		{"a total is missing", func(t *tables) { t.alerts = t.alerts[1:] },
			Report{Saved: 300, AlertsWrong: 1}, "none are saved"},
		{"a total is doubled", func(t *tables) { t.alerts = append(t.alerts, t.alerts[3]) },
			Report{Saved: 300, AlertsWrong: 1}, "a row too many"},
		{"a total of nobody", func(t *tables) {
			t.alerts = append(t.alerts, app.AlertRow{Source: "ghost", Topic: topic, EventCount: 2})
		}, Report{Saved: 300, AlertsWrong: 1}, "alerts of ghost"},
		{"one partition's total moved to another", func(t *tables) {
			t.alerts[0].EventCount++
			t.alerts[1].EventCount--
		}, Report{Saved: 300, AlertsWrong: 2}, "events had low health"},
		{"a position is behind", func(t *tables) { t.positions[1] = 99 },
			Report{Saved: 300, PositionsWrong: 1}, "the position of t/1 is 99, but the log ends at 100"},
		{"a position is missing", func(t *tables) { delete(t.positions, 2) },
			Report{Saved: 300, PositionsWrong: 1}, "t/2"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m, tb := setup()
			c.damage(tb)
			r := compare(t, m, tb)
			c.want.Produced = 300
			if r.OK() || counts(r) != counts(&c.want) {
				t.Errorf("got %s, want %s", r, &c.want)
			}
			if !slices.ContainsFunc(r.Differences, func(d string) bool { return strings.Contains(d, c.says) }) {
				t.Errorf("differences %q, want one with %q", r.Differences, c.says)
			}
			if line := r.String(); !strings.HasPrefix(line, "NOT exactly once: 300 produced") {
				t.Errorf("the last line is %q", line)
			}
		})
	}
}

func counts(r *Report) string {
	return fmt.Sprint(r.Produced, r.Saved, r.Lost, r.Duplicated, r.Changed, r.Unknown, r.AlertsWrong, r.PositionsWrong)
}

func TestManyDifferencesAreAllCountedAndFewNamed(t *testing.T) {
	m, tb := setup()
	tb.events = nil
	if r := compare(t, m, tb); r.Lost != 300 || len(r.Differences) != maxDifferences {
		t.Errorf("%d lost, %d named; want 300 and %d", r.Lost, len(r.Differences), maxDifferences)
	}
}

func TestRowsThatCannotBeReadAreNoVerdict(t *testing.T) {
	m, tb := setup()
	tb.err = errors.New("connection lost")
	if r, err := m.Compare(context.Background(), topic, tb); err == nil || r != nil {
		t.Errorf("got %v, %v, want an error alone", r, err)
	}
}

func TestTopTotalsAreSummedOverPartitions(t *testing.T) {
	m := &Model{}
	minute := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	tb := &tables{alerts: []app.AlertRow{
		{Source: "a", TS: minute, Partition: 0, EventCount: 3},
		{Source: "b", TS: minute, Partition: 0, EventCount: 4},
		{Source: "a", TS: minute, Partition: 1, EventCount: 2},
		{Source: "c", TS: minute, Partition: 1, EventCount: 1},
	}}
	top := compare(t, m, tb).Top(2)
	want := []Total{{SourceMinute{"a", minute}, 5}, {SourceMinute{"b", minute}, 4}}
	if !slices.Equal(top, want) {
		t.Errorf("got %v, want %v", top, want)
	}
}
