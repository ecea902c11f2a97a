package kafka

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// partition is one assignment of one partition. The client fetches it only
// while it is started and neither paused, suspended nor dead; apply is the one
// place that tells the client so.
type partition struct {
	run *run
	tp  offsetstore.TopicPartition
	ctx context.Context // ends when the partition is dead
	end context.CancelFunc

	// deliver is held while the lanes are told something about this partition,
	// so that those calls never overlap. It is taken before mu.
	deliver sync.Mutex

	mu        sync.Mutex
	dead      bool // not ours any more
	revoking  bool // about to go; nothing is delivered any more
	started   bool // a position was set
	paused    bool // by the lane
	suspended bool // while an error of reading is looked into
	fetching  bool // what the client was last told

	next      offsetstore.Position // the next record to deliver
	from      int64                // the offset it was last started at
	log       standing             // the log as it was then
	seeks     int                  // positions set in this assignment
	strikes   int                  // errors of reading since the last record or answer without one
	readSince time.Time            // when reading was last begun
	mirror    offsetstore.Position // the last saved position if mirrored, else where it was started
	mirrored  bool
	unsent    bool  // mirror is not committed to the group yet
	inGroup   int64 // what the group had committed at the assignment, noOffset if nothing
	announce  bool  // the start is not compared with inGroup yet
}

var _ framework.Partition = (*partition)(nil)

func newPartition(r *run, tp offsetstore.TopicPartition) *partition {
	p := &partition{run: r, tp: tp, paused: true, inGroup: unknownOffset}
	p.ctx, p.end = context.WithCancel(context.Background())
	return p
}

// TopicPartition implements framework.Partition.
func (p *partition) TopicPartition() offsetstore.TopicPartition { return p.tp }

// String makes a partition readable in logs.
func (p *partition) String() string { return p.tp.String() }

// Pause implements framework.Partition.
func (p *partition) Pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = true
	p.apply()
}

// Resume implements framework.Partition. It means nothing before Start, which
// pauses.
func (p *partition) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = false
	p.apply()
}

// apply tells the client whether to fetch the partition. The caller holds mu. A
// dead partition tells it nothing: the client may be fetching for a newer
// assignment. What the client has buffered of a paused partition it drops and
// fetches again later.
func (p *partition) apply() {
	want := p.started && !p.paused && !p.suspended && !p.revoking
	if p.dead || want == p.fetching {
		return
	}
	p.fetching = want
	one := map[string][]int32{p.tp.Topic: {p.tp.Partition}}
	if want {
		p.run.cl.ResumeFetchPartitions(one)
	} else {
		p.run.cl.PauseFetchPartitions(one)
	}
}

// beginRevoke stops the delivery of records, and reports whether it was the
// first to do so. It waits for the hand-over that is under way.
func (p *partition) beginRevoke() bool {
	p.deliver.Lock()
	defer p.deliver.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !p.revoking && !p.dead
	p.revoking = true
	p.apply()
	return first
}

func (p *partition) kill() {
	p.deliver.Lock()
	defer p.deliver.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	p.end()
}

func (p *partition) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// Values of inGroup that are no offsets.
const (
	noOffset      = -1 // the group has none
	unknownOffset = -2 // the group has not answered yet
)

// setCommitted notes what the group has committed.
func (p *partition) setCommitted(offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inGroup = max(offset, noOffset)
	p.compareStart()
}

// scope returns a context that ends with ctx and with the partition.
func (p *partition) scope(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(p.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// ended turns the error of an operation into ErrNotOwner if the partition died
// meanwhile, which explains it better.
func (p *partition) ended(err error) error {
	if err != nil && p.isDead() {
		return p.notOwner()
	}
	return err
}

func (p *partition) notOwner() error {
	return fmt.Errorf("kafka source: %s: %w", p.tp, framework.ErrNotOwner)
}
