package framework

import (
	"context"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// ProcessForTest returns the record loop of a lane, without source and saves:
// it processes records into one batch and empties it.
func ProcessForTest[W any](p *Pipeline[W], sink Sink[W], cfg Config) func([]Record) {
	e := newEngine(p, nil, sink, cfg.WithDefaults())
	l := newLane(e, idle{})
	l.tenure = newTenure(l)
	l.tenure.last = -1
	return func(records []Record) {
		if n, err := l.process(records); err != nil || n != len(records) {
			panic("records were not processed")
		}
		l.tenure.cur.Writes = l.tenure.cur.Writes[:0]
		l.tenure.cur.records, l.tenure.cur.bytes = 0, 0
		l.tenure.timer.Stop()
	}
}

type idle struct{}

func (idle) TopicPartition() offsetstore.TopicPartition {
	return offsetstore.TopicPartition{Topic: "in"}
}
func (idle) Resolve(context.Context, offsetstore.StartRules) (TopicStart, error) {
	return TopicStart{}, nil
}
func (idle) Start(context.Context, offsetstore.Position) error { return nil }
func (idle) Pause()                                            {}
func (idle) Resume()                                           {}
func (idle) Confirm(context.Context) error                     { return nil }
func (idle) Mirror(offsetstore.Position)                       {}
