package kafka_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// recorder is a framework.Lanes that keeps everything it was told, and checks
// what holds in every test: calls for one partition never overlap, nothing comes
// for a dead partition, nothing before it was started.
type recorder struct {
	t *testing.T

	// start decides where a newly assigned partition begins; nil leaves it to
	// the test. The partition is resumed once it has started.
	start func(tp offsetstore.TopicPartition) offsetstore.Position
	// onRecords and onRevoked run within the calls of the source.
	onRecords func(p framework.Partition, recs []framework.Record)
	onRevoked func(ctx context.Context, ps []framework.Partition)

	mu       sync.Mutex
	changed  chan struct{}
	lanes    map[framework.Partition]*lane
	current  map[offsetstore.TopicPartition]*lane
	events   []string
	starters sync.WaitGroup
}

type lane struct {
	p        framework.Partition
	busy     bool
	begun    bool // Start was called, and has not failed
	started  bool // Start has returned nil
	dead     bool
	startErr error
	records  []framework.Record
	failed   error
}

func newRecorder(t *testing.T) *recorder {
	return &recorder{
		t:       t,
		changed: make(chan struct{}),
		lanes:   make(map[framework.Partition]*lane),
		current: make(map[offsetstore.TopicPartition]*lane),
	}
}

// from is a start function that begins every partition at offset.
func from(offset int64) func(offsetstore.TopicPartition) offsetstore.Position {
	return func(offsetstore.TopicPartition) offsetstore.Position { return offsetstore.At(offset) }
}

func (r *recorder) note(event string, args ...any) {
	r.events = append(r.events, fmt.Sprintf(event, args...))
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *recorder) Assigned(ps []framework.Partition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range ps {
		if old := r.current[p.TopicPartition()]; old != nil && !old.dead {
			r.t.Errorf("%s was assigned again while the earlier assignment lives", p.TopicPartition())
		}
		l := &lane{p: p}
		r.lanes[p], r.current[p.TopicPartition()] = l, l
		r.note("assigned %s", p.TopicPartition())
		if r.start != nil {
			r.starters.Go(func() { r.begin(l, r.start(p.TopicPartition())) })
		}
	}
}

// begin starts and resumes a lane as the framework's runner does.
func (r *recorder) begin(l *lane, at offsetstore.Position) {
	r.mu.Lock()
	l.begun = true // records may come at any time after Start has set the position
	r.mu.Unlock()
	err := l.p.Start(context.Background(), at)
	r.mu.Lock()
	l.begun, l.started, l.startErr = err == nil, err == nil, err
	r.note("started %s at %d: %v", l.p.TopicPartition(), at.Offset, err)
	r.mu.Unlock()
	if err == nil {
		l.p.Resume()
	}
}

func (r *recorder) enter(p framework.Partition, what string) *lane {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.lanes[p]
	if l == nil {
		r.t.Errorf("%s for %s, which was never assigned", what, p.TopicPartition())
		l = &lane{p: p}
		r.lanes[p] = l
	}
	if l.busy {
		r.t.Errorf("%s for %s overlaps another call", what, p.TopicPartition())
	}
	if l.dead {
		r.t.Errorf("%s for %s, which is dead", what, p.TopicPartition())
	}
	l.busy = true
	return l
}

func (r *recorder) leave(l *lane, event string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.busy = false
	r.note(event, args...)
}

func (r *recorder) Records(p framework.Partition, recs []framework.Record, _ int64) {
	l := r.enter(p, "Records")
	if r.onRecords != nil {
		r.onRecords(p, recs)
	}
	r.mu.Lock()
	if !l.begun {
		r.t.Errorf("records of %s before it was started", p.TopicPartition())
	}
	l.records = append(l.records, recs...)
	r.mu.Unlock()
	r.leave(l, "records %s %d..%d", p.TopicPartition(), recs[0].Offset, recs[len(recs)-1].Offset)
}

func (r *recorder) Revoked(ctx context.Context, ps []framework.Partition) {
	var ls []*lane
	for _, p := range ps {
		ls = append(ls, r.enter(p, "Revoked"))
	}
	if _, ok := ctx.Deadline(); !ok {
		r.t.Error("Revoked came without a deadline")
	}
	if r.onRevoked != nil {
		r.onRevoked(ctx, ps)
	}
	for i, l := range ls {
		r.mu.Lock()
		l.dead = true
		r.mu.Unlock()
		r.leave(l, "revoked %s", ps[i].TopicPartition())
	}
}

func (r *recorder) Lost(ps []framework.Partition) {
	for _, p := range ps {
		l := r.enter(p, "Lost")
		r.mu.Lock()
		l.dead = true
		r.mu.Unlock()
		r.leave(l, "lost %s", p.TopicPartition())
	}
}

func (r *recorder) Failed(p framework.Partition, err error) {
	l := r.enter(p, "Failed")
	r.mu.Lock()
	if l.failed != nil {
		r.t.Errorf("%s failed twice", p.TopicPartition())
	}
	l.failed = err
	r.mu.Unlock()
	r.leave(l, "failed %s: %v", p.TopicPartition(), err)
}

// limit is how long a condition may take before a test gives up. It decides
// nothing about a test that passes.
const limit = 30 * time.Second

// wait returns once cond holds; cond runs under the recorder's lock.
func (r *recorder) wait(what string, cond func() bool) {
	r.t.Helper()
	deadline := time.After(limit)
	for {
		r.mu.Lock()
		ok, changed := cond(), r.changed
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			r.mu.Lock()
			defer r.mu.Unlock()
			r.t.Fatalf("%s did not happen; what did:\n%s", what, r.history())
		}
	}
}

func (r *recorder) history() string {
	last := r.events[max(0, len(r.events)-40):]
	out := ""
	for _, e := range last {
		out += "  " + e + "\n"
	}
	return out
}

// lane returns the current lane of a partition, once there is one.
func (r *recorder) lane(topic string, n int32) *lane {
	r.t.Helper()
	tp := offsetstore.TopicPartition{Topic: topic, Partition: n}
	var l *lane
	r.wait(tp.String()+" assigned", func() bool {
		l = r.current[tp]
		return l != nil && !l.dead
	})
	return l
}

// next returns the offset after the last record of a lane, or -1.
func (l *lane) next() int64 {
	if len(l.records) == 0 {
		return -1
	}
	return l.records[len(l.records)-1].Offset + 1
}

// waitNext waits until a lane has delivered everything below offset.
func (r *recorder) waitNext(l *lane, offset int64) {
	r.t.Helper()
	r.wait(fmt.Sprintf("%s read up to %d", l.p.TopicPartition(), offset), func() bool { return l.next() >= offset })
}

// waitStarted waits until a lane was started.
func (r *recorder) waitStarted(l *lane) {
	r.t.Helper()
	r.wait(l.p.TopicPartition().String()+" started", func() bool { return l.started })
}

// offsets returns a copy of the offsets that a lane delivered.
func (r *recorder) offsets(l *lane) []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]int64, len(l.records))
	for i := range l.records {
		out[i] = l.records[i].Offset
	}
	return out
}

// count returns how many events there were that satisfy match.
func (r *recorder) count(match func(string) bool) int {
	n := 0
	for _, e := range r.events {
		if match(e) {
			n++
		}
	}
	return n
}

// sequence is from, from+1, … below to.
func sequence(from, to int64) []int64 {
	out := make([]int64, 0, to-from)
	for ; from < to; from++ {
		out = append(out, from)
	}
	return out
}

func (r *recorder) requireOffsets(l *lane, want []int64) {
	r.t.Helper()
	if got := r.offsets(l); !slices.Equal(got, want) {
		r.t.Fatalf("%s delivered %v, want %v", l.p.TopicPartition(), short(got), short(want))
	}
}

func short(offsets []int64) string {
	if len(offsets) <= 20 {
		return fmt.Sprint(offsets)
	}
	return fmt.Sprintf("%v … %v (%d)", offsets[:10], offsets[len(offsets)-5:], len(offsets))
}
