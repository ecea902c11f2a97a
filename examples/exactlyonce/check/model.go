// Package check compares what a sink holds with what was produced. It shares
// the example's types but none of its arithmetic: the model is computed from
// the events themselves, by whoever produced them.
package check

import (
	"sync"
	"time"

	"github.com/lockstep-stream/lockstep/examples/exactlyonce/app"
)

// Model is what the tables must hold in the end. Its zero value is an empty
// model. Add may be called concurrently, and Compare once all are added.
type Model struct {
	mu     sync.Mutex
	events map[int64]app.EventRow // by the event's ID
	ends   map[int32]int64        // by partition: the position after the last event
	alerts map[alertKey]int64
}

// alertKey finds a row of alerts, within one topic.
type alertKey struct {
	source    string
	minute    int64 // Unix minutes
	partition int32
}

// Add records that e was written to a partition at an offset. IDs must be
// unique.
func (m *Model) Add(partition int32, offset int64, e app.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.events == nil {
		m.events, m.ends, m.alerts = map[int64]app.EventRow{}, map[int32]int64{}, map[alertKey]int64{}
	}
	m.events[e.ID] = app.EventRow{
		Partition: partition, Offset: offset,
		ID: e.ID, TS: time.UnixMilli(e.TS), Source: e.Source, Client: e.Client, Health: e.Health,
	}
	m.ends[partition] = max(m.ends[partition], offset+1)
	if e.Health < app.LowHealth {
		m.alerts[alertKey{e.Source, e.TS / 60_000, partition}]++
	}
}

// Ends returns, for each partition that has events, the position after its last
// one.
func (m *Model) Ends() map[int32]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	ends := make(map[int32]int64, len(m.ends))
	for p, end := range m.ends {
		ends[p] = end
	}
	return ends
}
