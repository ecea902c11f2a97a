package check

import (
	"context"
	"fmt"
	"time"

	"github.com/lockstep-stream/lockstep/examples/exactlyonce/app"
)

// Tables is the part of an [app.Store] that is compared.
type Tables interface {
	// Events and Alerts call visit for each row of the topic, in any order.
	Events(ctx context.Context, topic string, visit func(app.EventRow)) error
	Alerts(ctx context.Context, topic string, visit func(app.AlertRow)) error
	// Positions returns the next offset to read of each partition that has one.
	Positions(ctx context.Context, topic string) (map[int32]int64, error)
}

// Compare reads all rows of topic and says how they differ from the model. The
// error is about reading; differences are in the report.
func (m *Model) Compare(ctx context.Context, topic string, tables Tables) (*Report, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &Report{Produced: len(m.events), totals: map[SourceMinute]int64{}}
	for _, part := range []func(context.Context, *Report, string, Tables) error{
		m.compareEvents, m.compareAlerts, m.comparePositions,
	} {
		if err := part(ctx, r, topic, tables); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (m *Model) compareEvents(ctx context.Context, r *Report, topic string, tables Tables) error {
	times := make(map[int64]int, len(m.events)) // by ID: how many rows
	err := tables.Events(ctx, topic, func(row app.EventRow) {
		r.Saved++
		times[row.ID]++
		want, produced := m.events[row.ID]
		want.Topic = topic
		switch {
		case !produced:
			r.Unknown++
			r.differ("event %d at %s/%d@%d was never produced", row.ID, topic, row.Partition, row.Offset)
		case times[row.ID] > 1:
			r.Duplicated++
			r.differ("event %d is saved again at %s/%d@%d; it was produced once, at %d@%d",
				row.ID, topic, row.Partition, row.Offset, want.Partition, want.Offset)
		case !same(row, want):
			r.Changed++
			r.differ("event %d is saved as %s, but was produced as %s", row.ID, describe(row), describe(want))
		}
	})
	if err != nil {
		return fmt.Errorf("reading events: %w", err)
	}
	for id, want := range m.events {
		if times[id] == 0 {
			r.Lost++
			r.differ("event %d, produced at %s/%d@%d, is not saved", id, topic, want.Partition, want.Offset)
		}
	}
	return nil
}

func same(a, b app.EventRow) bool {
	equalTime := a.TS.Equal(b.TS)
	a.TS, b.TS = time.Time{}, time.Time{}
	return equalTime && a == b
}

func describe(e app.EventRow) string {
	return fmt.Sprintf("{%d@%d %s %s %s %d}", e.Partition, e.Offset, e.TS.UTC().Format(time.RFC3339Nano), e.Source, e.Client, e.Health)
}

func (m *Model) compareAlerts(ctx context.Context, r *Report, topic string, tables Tables) error {
	seen := make(map[alertKey]bool, len(m.alerts))
	err := tables.Alerts(ctx, topic, func(row app.AlertRow) {
		key := alertKey{row.Source, row.TS.Unix() / 60, row.Partition}
		r.addTotal(key, row.EventCount)
		if seen[key] || row.TS.Unix()%60 != 0 {
			r.AlertsWrong++
			r.differ("alerts of %s have a row too many", key)
		} else if want := m.alerts[key]; row.EventCount != want {
			r.AlertsWrong++
			r.differ("alerts of %s: %d are saved, but %d events had low health", key, row.EventCount, want)
		}
		seen[key] = true
	})
	if err != nil {
		return fmt.Errorf("reading alerts: %w", err)
	}
	for key, want := range m.alerts {
		if !seen[key] {
			r.AlertsWrong++
			r.differ("alerts of %s: none are saved, but %d events had low health", key, want)
		}
	}
	return nil
}

func (m *Model) comparePositions(ctx context.Context, r *Report, topic string, tables Tables) error {
	positions, err := tables.Positions(ctx, topic)
	if err != nil {
		return fmt.Errorf("reading positions: %w", err)
	}
	r.Positions = positions
	for p, end := range m.ends {
		if got, ok := positions[p]; !ok || got != end {
			r.PositionsWrong++
			r.differ("the position of %s/%d is %d, but the log ends at %d", topic, p, got, end)
		}
	}
	return nil
}

// String names the key for people.
func (k alertKey) String() string {
	return fmt.Sprintf("%s at %s, partition %d", k.source, time.Unix(k.minute*60, 0).UTC().Format("2006-01-02 15:04"), k.partition)
}
