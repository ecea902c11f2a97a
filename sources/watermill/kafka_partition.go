package watermill

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// partition is one assignment of one partition.
type partition struct {
	r       *run
	session *session
	tp      offsetstore.TopicPartition
	ctx     context.Context // ends when the partition is dead
	end     context.CancelFunc
	soft    context.Context // ends when it is about to be
	cut     context.CancelFunc
	starts  chan *start   // to the goroutine that feeds
	changed chan struct{} // paused or resumed

	// deliver is held while the lanes are told something about this partition, so
	// that those calls never overlap. It is taken before mu.
	deliver sync.Mutex

	mu       sync.Mutex
	dead     bool
	revoking bool // about to go; nothing is delivered any more
	started  bool
	paused   bool
	next     offsetstore.Position      // the next record to deliver
	handed   []*sarama.ConsumerMessage // given to the subscriber since the last start, in order, and not come back
	logEnd   int64
	mirror   offsetstore.Position
	unsent   bool // mirror is not committed yet
}

var _ framework.Partition = (*partition)(nil)

func newPartition(s *session, tp offsetstore.TopicPartition) *partition {
	p := &partition{r: s.r, session: s, tp: tp, paused: true, starts: make(chan *start), changed: make(chan struct{}, 1)}
	p.ctx, p.end = context.WithCancel(context.Background())
	p.soft, p.cut = context.WithCancel(p.ctx)
	return p
}

// TopicPartition implements framework.Partition.
func (p *partition) TopicPartition() offsetstore.TopicPartition { return p.tp }

// String makes a partition readable in logs.
func (p *partition) String() string { return p.tp.String() }

// Pause implements framework.Partition.
func (p *partition) Pause() { p.setPaused(true) }

// Resume implements framework.Partition. It means nothing before Start, which
// pauses.
func (p *partition) Resume() { p.setPaused(false) }

func (p *partition) setPaused(paused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = paused
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// flowing reports whether records may be handed to the subscriber.
func (p *partition) flowing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.flows()
}

// flows is called with mu held.
func (p *partition) flows() bool { return p.started && !p.paused && !p.revoking && !p.dead }

// position returns the next record to deliver, and whether there is a start.
func (p *partition) position() (next offsetstore.Position, started bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next, p.started
}

// rewind returns where to read on with another consumer. What the subscriber has
// not given back will be read again.
func (p *partition) rewind() offsetstore.Position {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handed = nil
	return p.next
}

// offer notes that k is about to be handed to the subscriber, and reports
// whether it may be.
func (p *partition) offer(k *sarama.ConsumerMessage, logEnd int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.flows() {
		return false
	}
	p.logEnd = max(logEnd, k.Offset+1) // the broker notes the end before it reads
	if n := len(p.handed); n == 0 || p.handed[n-1] != k {
		p.handed = append(p.handed, k)
	}
	return true
}

// receive delivers the record that m came from, unless it was read before the
// last start, or the partition is not ours any more.
func (p *partition) receive(m *message.Message, offset int64, failure error) {
	p.deliver.Lock()
	defer p.deliver.Unlock()
	k, logEnd := p.take(offset)
	switch {
	case k == nil:
	case failure != nil:
		p.fail(&UnmarshalError{TopicPartition: p.tp, Offset: offset, Err: failure})
	default:
		p.r.lanes.Records(p, []framework.Record{newRecord(k, m)}, logEnd)
	}
}

// take moves the position past the record with this offset, if it is the next one
// to come back. Any other was handed over before the last start; to believe it
// would pass by what lies between.
func (p *partition) take(offset int64) (*sarama.ConsumerMessage, int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.handed) == 0 || p.handed[0].Offset != offset || !p.started || p.revoking || p.dead {
		return nil, 0
	}
	k := p.handed[0]
	p.handed = p.handed[1:]
	p.next.Offset, p.next.LeaderEpoch = offset+1, offsetstore.NoLeaderEpoch
	return k, p.logEnd
}

// failed tells the lanes, once, that the partition cannot be read any more.
func (p *partition) failed(err error) {
	p.deliver.Lock()
	defer p.deliver.Unlock()
	p.fail(err)
}

// fail is failed for a caller that holds deliver.
func (p *partition) fail(err error) {
	p.mu.Lock()
	current := p.started && !p.dead && !p.revoking
	if current {
		p.started, p.handed = false, nil
	}
	p.mu.Unlock()
	if current {
		p.r.lanes.Failed(p, err)
	}
}

// beginRevoke stops the delivery of records, and ends a Start that is under way.
// It waits for the hand-over that is under way.
func (p *partition) beginRevoke() {
	p.deliver.Lock()
	defer p.deliver.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.revoking = true
	p.cut()
}

func (p *partition) kill() {
	p.deliver.Lock()
	defer p.deliver.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	p.end()
}

// gone reports whether the partition is not ours any more, or about to be.
func (p *partition) gone() (dead, revoking bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead, p.revoking
}

// Confirm implements framework.Partition. The proof is a heartbeat that the group
// accepts from this member under the generation that the partition was assigned
// in: another generation has other assignments.
func (p *partition) Confirm(ctx context.Context) error {
	ctx, done := scope(ctx, p.ctx)
	defer done()
	for {
		dead, revoking := p.gone()
		if dead {
			return p.notOwner()
		}
		err := p.prove(ctx)
		switch {
		case err == nil:
			return nil
		case expelled(err):
			p.session.cancel() // sarama's own heartbeat would find out, later
			return p.notOwner()
		case errors.Is(err, sarama.ErrRebalanceInProgress) && revoking:
			return p.notOwner()
		case !errors.Is(err, sarama.ErrRebalanceInProgress) || ctx.Err() != nil:
			return p.ended(fmt.Errorf("watermill source: %s: ownership could not be confirmed: %w", p.tp, err))
		}
		// The session is about to end; what follows is not decided yet.
		_ = sleep(ctx, 50*time.Millisecond) // ctx is looked at with the next answer
	}
}

// proofTime bounds how long the group's coordinator is looked for.
const proofTime = 5 * time.Second

func (p *partition) prove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, proofTime)
	defer cancel()
	return p.session.heartbeat(ctx)
}

// scope returns a context that ends with either.
func scope(ctx, other context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(other, cancel)
	if other.Err() != nil {
		cancel() // AfterFunc does it soon
	}
	return ctx, func() { stop(); cancel() }
}

// ended turns the error of an operation into ErrNotOwner if the partition died
// meanwhile, which explains it better.
func (p *partition) ended(err error) error {
	if dead, revoking := p.gone(); err != nil && (dead || revoking) {
		return p.notOwner()
	}
	return err
}

func (p *partition) notOwner() error {
	return fmt.Errorf("watermill source: %s: %w", p.tp, framework.ErrNotOwner)
}
