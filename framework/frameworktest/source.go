package frameworktest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Source delivers the records of a [Log]. By default it is assigned every
// partition the log has when it runs; Assign, Revoke and Lose play the part of
// the group. It implements framework.Source.
type Source struct {
	log   *Log
	chunk int
	// delivery is held while records are handed over, and by Partition.Start:
	// after a start nothing read before it may arrive.
	delivery sync.Mutex

	mu       sync.Mutex
	lanes    framework.Lanes
	all      bool
	wanted   []offsetstore.TopicPartition // to assign when Run begins
	assigned map[offsetstore.TopicPartition]*Partition
	mirrored map[offsetstore.TopicPartition]offsetstore.Position
	changed  chan struct{}
	running  chan struct{}
}

// NewSource returns a source of log. Given partitions, only those are assigned
// at first.
func NewSource(log *Log, only ...offsetstore.TopicPartition) *Source {
	return &Source{
		log: log, chunk: 100, all: len(only) == 0, wanted: only,
		assigned: map[offsetstore.TopicPartition]*Partition{},
		mirrored: map[offsetstore.TopicPartition]offsetstore.Position{},
		changed:  make(chan struct{}, 1), running: make(chan struct{}),
	}
}

// Run implements framework.Source.
func (s *Source) Run(ctx context.Context, lanes framework.Lanes) error {
	s.begin(lanes)
	for {
		watch := s.log.watch()
		if s.deliver() {
			if ctx.Err() != nil {
				break
			}
			continue
		}
		select {
		case <-ctx.Done():
		case <-watch:
		case <-s.changed:
		}
		if ctx.Err() != nil {
			break
		}
	}
	for tp := range s.snapshot() {
		s.kill(tp)
	}
	return nil
}

func (s *Source) begin(lanes framework.Lanes) {
	wanted := s.wanted
	if s.all {
		wanted = s.log.Partitions()
	}
	s.mu.Lock()
	s.lanes = lanes
	s.mu.Unlock()
	close(s.running)
	s.Assign(wanted...)
}

// Assign gives partitions to the running source, waiting for Run if need be.
func (s *Source) Assign(tps ...offsetstore.TopicPartition) {
	<-s.running
	var ps []framework.Partition
	s.mu.Lock()
	for _, tp := range tps {
		p := &Partition{source: s, tp: tp, paused: true}
		s.assigned[tp] = p
		ps = append(ps, p)
	}
	s.mu.Unlock()
	s.lanes.Assigned(ps)
	s.signal()
}

// Revoke takes partitions away with notice, and returns when their lanes are
// done or ctx ends.
func (s *Source) Revoke(ctx context.Context, tps ...offsetstore.TopicPartition) {
	ps := s.live(tps)
	s.lanes.Revoked(ctx, ps)
	for _, tp := range tps {
		s.kill(tp)
	}
}

// Lose takes partitions away without notice.
func (s *Source) Lose(tps ...offsetstore.TopicPartition) {
	ps := s.live(tps)
	for _, tp := range tps {
		s.kill(tp)
	}
	s.lanes.Lost(ps)
}

// loseAll is Lose for every partition.
func (s *Source) loseAll() { s.Lose(slices.Collect(maps.Keys(s.snapshot()))...) }

// Disown makes Confirm say that the group does not count us as owner any more,
// while nobody has told us yet.
func (s *Source) Disown(tp offsetstore.TopicPartition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.assigned[tp].disowned = true
}

// Deliver hands records over as they are, whatever was asked for. The partition
// should have been made to wait first, or its own records come between.
func (s *Source) Deliver(tp offsetstore.TopicPartition, records ...framework.Record) {
	s.DeliverOf(tp, -1, records...)
}

// DeliverOf is Deliver, with what the source says of the log's end.
func (s *Source) DeliverOf(tp offsetstore.TopicPartition, logEnd int64, records ...framework.Record) {
	<-s.running
	s.delivery.Lock()
	defer s.delivery.Unlock()
	s.lanes.Records(s.live([]offsetstore.TopicPartition{tp})[0], records, logEnd)
}

// Fail reports that a partition cannot be read any more.
func (s *Source) Fail(tp offsetstore.TopicPartition, err error) {
	s.lanes.Failed(s.live([]offsetstore.TopicPartition{tp})[0], err)
}

// Mirrored returns the position that was mirrored last, if any.
func (s *Source) Mirrored(tp offsetstore.TopicPartition) (offsetstore.Position, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.mirrored[tp]
	return p, ok
}

// Paused reports whether a partition is assigned and does not deliver now.
func (s *Source) Paused(tp offsetstore.TopicPartition) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.assigned[tp]
	return p != nil && p.paused
}

// deliver hands over one chunk of each partition that flows, and reports
// whether there was any.
func (s *Source) deliver() bool {
	s.delivery.Lock()
	defer s.delivery.Unlock()
	found := false
	for _, p := range s.flowing() {
		if err := p.check(offsetstore.At(p.next)); err != nil {
			p.Pause()
			s.lanes.Failed(p, err)
			continue
		}
		records := s.log.from(p.tp, p.next, s.chunk)
		if len(records) > 0 && p.advance(records) {
			s.lanes.Records(p, records, s.log.End(p.tp))
			found = true
		}
	}
	return found
}

func (s *Source) flowing() []*Partition {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ps []*Partition
	for _, p := range s.assigned {
		if !p.paused {
			ps = append(ps, p)
		}
	}
	slices.SortFunc(ps, func(a, b *Partition) int { return compare(a.tp, b.tp) })
	return ps
}

func (s *Source) live(tps []offsetstore.TopicPartition) []framework.Partition {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ps []framework.Partition
	for _, tp := range tps {
		if p := s.assigned[tp]; p != nil {
			ps = append(ps, p)
		}
	}
	return ps
}

func (s *Source) snapshot() map[offsetstore.TopicPartition]*Partition {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := map[offsetstore.TopicPartition]*Partition{}
	for tp, p := range s.assigned {
		m[tp] = p
	}
	return m
}

func (s *Source) kill(tp offsetstore.TopicPartition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.assigned[tp]; p != nil {
		p.dead, p.paused = true, true
		delete(s.assigned, tp)
	}
}

func (s *Source) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func compare(a, b offsetstore.TopicPartition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}
