package sourcetest

import (
	"slices"
	"sync"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// store plays the sink for the processes of a group: it holds the position of
// each partition, what was saved over all owners, and who owns it.
type store struct {
	e *env

	mu    sync.Mutex
	next  map[offsetstore.TopicPartition]int64
	saved map[offsetstore.TopicPartition][]int64
	owner map[offsetstore.TopicPartition]*owned
}

type owned struct {
	lanes *lanes
	lane  *lane
}

func (e *env) store() *store {
	return &store{
		e:     e,
		next:  map[offsetstore.TopicPartition]int64{},
		saved: map[offsetstore.TopicPartition][]int64{},
		owner: map[offsetstore.TopicPartition]*owned{},
	}
}

// lanes are those of one process: they start where the store says, and save what
// they are given.
func (s *store) lanes() *lanes {
	l := s.e.lanes()
	l.start = s.position
	l.onRecords = s.save
	l.onAssigned = func(a *lane) { s.assign(l, a) }
	return l
}

func (s *store) position(tp offsetstore.TopicPartition) offsetstore.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return offsetstore.At(s.next[tp])
}

// save ignores what is saved already, as a runner does.
func (s *store) save(l *lane, records []framework.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range records {
		if r.Offset >= s.next[l.tp] {
			s.saved[l.tp] = append(s.saved[l.tp], r.Offset)
			s.next[l.tp] = r.Offset + 1
		}
	}
}

// assign notes the new owner. In these cases partitions move in order only.
func (s *store) assign(ls *lanes, l *lane) {
	s.mu.Lock()
	old := s.owner[l.tp]
	s.owner[l.tp] = &owned{ls, l}
	s.mu.Unlock()
	if old == nil {
		return
	}
	old.lanes.mu.Lock()
	defer old.lanes.mu.Unlock()
	if !old.lane.dead && !old.lanes.ended {
		s.e.broken("a partition goes to its next owner only after Revoked has returned at the former one, or its time is up", "%s was assigned while another process has it", l.tp)
	}
}

// wait returns once partitions 0 to n-1 are saved up to next.
func (s *store) wait(n int32, next int64, among ...*lanes) {
	s.e.r.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !s.reached(n, next) {
		select {
		case <-tick.C:
		case <-s.e.ctx.Done():
			for i, l := range among {
				s.e.errorf("the records were not all delivered; process %d was told, last:\n%s", i+1, l.history())
			}
			s.e.r.FailNow()
		}
	}
}

func (s *store) reached(n int32, next int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range n {
		if s.next[s.e.tp(i)] < next {
			return false
		}
	}
	return true
}

// wantComplete checks that partitions 0 to n-1 were saved whole: each record
// below end once and in order.
func (s *store) wantComplete(n int32, end int64) {
	s.e.r.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range n {
		if got := s.saved[s.e.tp(i)]; !slices.Equal(got, sequence(0, end)) {
			s.e.fatalf("over all owners, %s delivered %s, want 0..%d", s.e.tp(i), short(got), end-1)
		}
	}
}
