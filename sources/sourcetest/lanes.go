package sourcetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// lanes is a framework.Lanes that keeps what it was told, and checks what holds
// in every case.
type lanes struct {
	e *env

	// start says where a newly assigned partition begins; nil leaves it to the
	// case. The partition is resumed once it has started.
	start func(offsetstore.TopicPartition) offsetstore.Position
	// onRecords and onRevoked run within the calls of the source, onAssigned
	// before the partition is started.
	onAssigned func(*lane)
	onRecords  func(*lane, []framework.Record)
	onRevoked  func(context.Context, []*lane)
	// unsaved: what is delivered counts as saved only when the case says so.
	// Otherwise it is mirrored at once, since a source may wait for that.
	unsaved bool

	starters sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{}
	all     map[framework.Partition]*lane
	current map[offsetstore.TopicPartition]*lane
	events  []string
	told    bool // Assigned was called
	ended   bool
}

// lane is one assignment. Its fields are guarded by lanes.mu.
type lane struct {
	p        framework.Partition
	tp       offsetstore.TopicPartition
	busy     bool
	open     bool // records may come: Start was called, and has not failed
	dead     bool
	lost     bool
	startErr error
	records  []framework.Record
	failed   error
}

func (e *env) lanes() *lanes {
	return &lanes{
		e:       e,
		changed: make(chan struct{}),
		all:     map[framework.Partition]*lane{},
		current: map[offsetstore.TopicPartition]*lane{},
	}
}

// lanesFrom begins every partition at offset.
func (e *env) lanesFrom(offset int64) *lanes {
	l := e.lanes()
	l.start = func(offsetstore.TopicPartition) offsetstore.Position { return offsetstore.At(offset) }
	return l
}

// note records an event and wakes who waits. The caller holds mu.
func (s *lanes) note(format string, args ...any) {
	s.events = append(s.events, fmt.Sprintf(format, args...))
	close(s.changed)
	s.changed = make(chan struct{})
}

// Assigned implements framework.Lanes.
func (s *lanes) Assigned(ps []framework.Partition) {
	s.mu.Lock()
	s.told = true
	s.note("assigned %d partitions", len(ps))
	s.mu.Unlock()
	for _, p := range ps {
		l := s.admit(p)
		if s.onAssigned != nil {
			s.onAssigned(l)
		}
		if s.start != nil {
			s.starters.Go(func() { _ = s.begin(l, s.start(l.tp)) })
		}
	}
}

func (s *lanes) admit(p framework.Partition) *lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &lane{p: p, tp: p.TopicPartition()}
	s.checkRunning("Assigned")
	if s.all[p] != nil {
		s.e.broken("each assignment is a fresh Partition, even if the same one was ours before", "%s was assigned with the value of an earlier assignment", l.tp)
	}
	if old := s.current[l.tp]; old != nil && !old.dead {
		s.e.broken("a partition is assigned again only after it was revoked or lost", "%s was assigned while the earlier assignment lives", l.tp)
	}
	s.all[p], s.current[l.tp] = l, l
	s.note("assigned %s", l.tp)
	return l
}

// begin starts and resumes a lane as the runner does.
func (s *lanes) begin(l *lane, at offsetstore.Position) error {
	err := s.startOnly(l, at)
	if err == nil {
		l.p.Resume()
	}
	return err
}

// startOnly starts a lane, and drops what was read before.
func (s *lanes) startOnly(l *lane, at offsetstore.Position) error {
	s.mu.Lock()
	l.open = true // what is in flight is accepted until Start returns
	s.mu.Unlock()
	err := l.p.Start(s.e.ctx, at)
	s.mu.Lock()
	defer s.mu.Unlock()
	l.open, l.startErr, l.records, l.failed = err == nil, err, nil, nil
	s.note("started %s at %d: %v", l.tp, at.Offset, err)
	return err
}

// enter begins a call about p and checks that it may be made.
func (s *lanes) enter(p framework.Partition, what string) *lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checkRunning(what)
	l := s.all[p]
	if l == nil {
		s.e.broken("nothing is said of a partition that was not assigned", "%s for %s", what, p.TopicPartition())
		l = &lane{p: p, tp: p.TopicPartition(), open: true}
		s.all[p] = l
	}
	if l.busy {
		s.e.broken("for one partition the calls to Lanes never overlap", "%s for %s during another call", what, l.tp)
	}
	if l.dead {
		s.e.broken("nothing is said of a partition after it was revoked or lost", "%s for %s", what, l.tp)
	}
	l.busy = true
	return l
}

func (s *lanes) leave(l *lane, change func(), format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	l.busy = false
	s.note(format, args...)
}

// checkRunning is called with mu held.
func (s *lanes) checkRunning(what string) {
	if s.ended {
		s.e.broken("a source makes no call to Lanes after Run has returned", "%s", what)
	}
}

// end notes that Run has returned.
func (s *lanes) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.note("Run returned")
}

// Records implements framework.Lanes.
func (s *lanes) Records(p framework.Partition, records []framework.Record, logEnd int64) {
	l := s.enter(p, "Records")
	if len(records) == 0 {
		s.leave(l, func() {}, "no records of %s", l.tp)
		return
	}
	s.mu.Lock()
	s.checkRecords(l, records, logEnd)
	l.records = append(l.records, records...)
	s.mu.Unlock()
	if s.onRecords != nil {
		s.onRecords(l, records)
	}
	if !s.unsaved {
		p.Mirror(offsetstore.At(records[len(records)-1].Offset + 1))
	}
	s.leave(l, func() {}, "records %s %d..%d", l.tp, records[0].Offset, records[len(records)-1].Offset)
}

// checkRecords is called with mu held.
func (s *lanes) checkRecords(l *lane, records []framework.Record, logEnd int64) {
	if !l.open {
		s.e.broken("a partition delivers nothing until it was started", "%s delivered offset %d", l.tp, records[0].Offset)
	}
	last := int64(-1)
	if n := len(l.records); n > 0 {
		last = l.records[n-1].Offset
	}
	for _, r := range records {
		if r.Offset <= last {
			s.e.broken("records come in offset order", "%s delivered offset %d after %d", l.tp, r.Offset, last)
		}
		last = r.Offset
	}
	if logEnd != -1 && logEnd <= last {
		s.e.broken("logEnd is the next offset of the log, or -1", "%s delivered offset %d with log end %d", l.tp, last, logEnd)
	}
}

// Revoked implements framework.Lanes.
func (s *lanes) Revoked(ctx context.Context, ps []framework.Partition) {
	var ls []*lane
	for _, p := range ps {
		ls = append(ls, s.enter(p, "Revoked"))
	}
	if s.onRevoked != nil {
		s.onRevoked(ctx, ls)
	}
	for _, l := range ls {
		s.leave(l, func() { l.dead = true }, "revoked %s", l.tp)
	}
}

// Lost implements framework.Lanes.
func (s *lanes) Lost(ps []framework.Partition) {
	for _, p := range ps {
		l := s.enter(p, "Lost")
		s.leave(l, func() { l.dead, l.lost = true, true }, "lost %s", l.tp)
	}
}

// Failed implements framework.Lanes.
func (s *lanes) Failed(p framework.Partition, err error) {
	l := s.enter(p, "Failed")
	s.mu.Lock()
	if l.failed != nil {
		s.e.broken("a partition fails once, until it is started again", "%s failed with %v, then with %v", l.tp, l.failed, err)
	}
	s.mu.Unlock()
	s.leave(l, func() { l.failed = err }, "failed %s: %v", l.tp, err)
}

// wait returns once cond holds; cond runs under the lock.
func (s *lanes) wait(what string, cond func() bool) {
	s.e.r.Helper()
	for {
		s.mu.Lock()
		ok, changed := cond(), s.changed
		s.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-s.e.ctx.Done():
			s.e.fatalf("this did not happen: %s; what did, last:\n%s", what, s.history())
		}
	}
}

func (s *lanes) history() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return "\t" + strings.Join(s.events[max(0, len(s.events)-30):], "\n\t")
}

// lane returns the living lane of a partition, once there is one.
func (s *lanes) lane(n int32) *lane {
	s.e.r.Helper()
	var l *lane
	s.wait(fmt.Sprintf("partition %d assigned", n), func() bool {
		l = s.current[s.e.tp(n)]
		return l != nil && !l.dead
	})
	return l
}

// alive returns how many partitions are ours. The caller holds mu.
func (s *lanes) alive() (n int) {
	for _, l := range s.current {
		if !l.dead {
			n++
		}
	}
	return n
}

// next is the offset after the last record, or -1. The caller holds mu.
func (l *lane) next() int64 {
	if len(l.records) == 0 {
		return -1
	}
	return l.records[len(l.records)-1].Offset + 1
}

// waitNext waits until a lane has delivered everything below offset.
func (s *lanes) waitNext(l *lane, offset int64) {
	s.e.r.Helper()
	s.wait(fmt.Sprintf("%s read up to %d", l.tp, offset), func() bool { return l.next() >= offset || l.startErr != nil })
	s.mu.Lock()
	err := l.startErr
	s.mu.Unlock()
	if err != nil {
		s.e.fatalf("%s could not be started: %v", l.tp, err)
	}
}

func (s *lanes) offsets(l *lane) []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]int64, len(l.records))
	for i := range l.records {
		out[i] = l.records[i].Offset
	}
	return out
}

// want compares what a lane has delivered since its last start.
func (s *lanes) want(l *lane, want []int64) {
	s.e.r.Helper()
	if got := s.offsets(l); !slices.Equal(got, want) {
		s.e.fatalf("%s delivered %s, want %s", l.tp, short(got), short(want))
	}
}

// mustBegin starts and resumes a lane, which has to succeed.
func (s *lanes) mustBegin(l *lane, offset int64) {
	s.e.r.Helper()
	if err := s.begin(l, offsetstore.At(offset)); err != nil {
		s.e.fatalf("%s: Start at %d returned %v", l.tp, offset, err)
	}
}
