package watermill

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// held is a partition of a subscriber that cannot seek. What it has handed over
// is held, unacknowledged, until the sink has saved it, and so can be delivered
// again; what lies before that is gone.
type held struct {
	r    *reading
	tp   offsetstore.TopicPartition
	wake chan struct{}
	gone chan struct{} // closed when dead

	// deliver is held while the lanes are told something about this partition. It
	// is taken before mu.
	deliver sync.Mutex

	mu       sync.Mutex
	dead     bool
	silenced bool // about to die: nothing is delivered any more
	started  bool
	paused   bool
	fresh    bool   // nothing was delivered since the last start
	queue    []item // in the order of arrival
	sent     int    // how many of the queue were delivered since the last start
	last     int64  // the offset that arrived last
	high     int64  // the highest one so far
	skipped  []span // gaps below high, the last ones
	passed   int64  // everything below was acknowledged
	from     int64  // where it was last started
}

// item is a record with the messages that brought it, since a subscriber may
// bring one again.
type item struct {
	record   framework.Record
	after    int64 // the offset that arrived before it, or nothing
	messages []*message.Message
}

// nothing stands for the offset before the first that ever arrived.
const nothing = -2

// span is offsets from the first to below the second.
type span struct{ from, to int64 }

// maxSkipped bounds how many gaps are remembered.
const maxSkipped = 1000

var _ framework.Partition = (*held)(nil)

func newHeld(r *reading, tp offsetstore.TopicPartition) *held {
	return &held{r: r, tp: tp, paused: true, last: nothing, high: nothing, wake: make(chan struct{}, 1), gone: make(chan struct{})}
}

// TopicPartition implements framework.Partition.
func (p *held) TopicPartition() offsetstore.TopicPartition { return p.tp }

// String makes a partition readable in logs.
func (p *held) String() string { return p.tp.String() }

// add takes a message in. It refuses one that was passed by: what came behind it
// may be saved, and it would never be.
func (p *held) add(o Origin, m *message.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.dead:
		m.Nack()
		return nil
	case slices.ContainsFunc(p.skipped, func(s span) bool { return s.from <= o.Offset && o.Offset < s.to }):
		return refused(fmt.Errorf("%w: %s@%d came after offset %d, and was not processed; %T has to keep the order of a partition",
			framework.ErrOrder, p.tp, o.Offset, p.high, p.r.cfg.Subscriber))
	case o.Offset < p.passed:
		m.Ack() // saved already
		return nil
	}
	p.rise(o.Offset)
	i := slices.IndexFunc(p.queue, func(it item) bool { return it.record.Offset == o.Offset })
	if i >= 0 {
		p.queue[i].messages = append(p.queue[i].messages, m)
		return nil
	}
	p.queue = append(p.queue, item{
		record: framework.Record{
			Offset: o.Offset, LeaderEpoch: offsetstore.NoLeaderEpoch, Timestamp: o.Timestamp,
			Key: o.Key, Value: m.Payload, Headers: headersOf(m),
		},
		after:    p.last,
		messages: []*message.Message{m},
	})
	p.last = o.Offset
	p.signal()
	return nil
}

// rise notes that offset has arrived, and what it has passed by. The caller holds
// mu.
func (p *held) rise(offset int64) {
	if p.high != nothing && offset > p.high+1 {
		p.skipped = append(p.skipped, span{p.high + 1, offset})
		p.skipped = p.skipped[max(0, len(p.skipped)-maxSkipped):]
	}
	p.high = max(p.high, offset)
}

func (p *held) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// pump delivers until the partition is dead.
func (p *held) pump() {
	for {
		select {
		case <-p.gone:
			return
		case <-p.wake:
			p.hand()
		}
	}
}

// hand tells the lane what is due.
func (p *held) hand() {
	p.deliver.Lock()
	defer p.deliver.Unlock()
	records, err := p.take()
	switch {
	case err != nil:
		p.r.lanes.Failed(p, err)
	case len(records) > 0:
		p.r.lanes.Records(p, records, -1)
	}
}

func (p *held) take() ([]framework.Record, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silenced || !p.started || p.paused || p.sent >= len(p.queue) {
		return nil, nil
	}
	if p.fresh {
		p.drop(p.from)
		if err := p.check(offsetstore.At(p.from)); err != nil {
			p.started = false
			return nil, err
		}
	}
	var records []framework.Record
	for _, it := range p.queue[p.sent:] {
		records = append(records, it.record)
	}
	p.sent, p.fresh = len(p.queue), p.fresh && len(records) == 0
	return records, nil
}

// drop acknowledges what lies before offset. The caller holds mu.
func (p *held) drop(offset int64) {
	for len(p.queue) > 0 && p.queue[0].record.Offset < offset {
		it := p.queue[0]
		for _, m := range it.messages {
			m.Ack()
		}
		p.passed = max(p.passed, it.record.Offset+1)
		p.queue, p.sent = p.queue[1:], max(0, p.sent-1)
	}
}

// check refuses a position that lies before all that the subscriber can still
// give. It has skipped nothing if it came by the position on its way to the
// first that is held. The caller holds mu.
func (p *held) check(from offsetstore.Position) error {
	start, lost := p.passed, from.Offset < p.passed
	if len(p.queue) > 0 && !lost {
		first := p.queue[0]
		start, lost = first.record.Offset, first.record.Offset > from.Offset && from.Offset > first.after+1
	}
	if !lost {
		return nil
	}
	return &framework.PositionError{TopicPartition: p.tp, Position: from, LogStart: start, LogEnd: start, Err: framework.ErrBelowLogStart}
}

// Start implements framework.Partition. Whether the subscriber has skipped
// records shows with the first one at or behind the position, here or later by
// Failed.
func (p *held) Start(_ context.Context, from offsetstore.Position) error {
	p.deliver.Lock()
	defer p.deliver.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead || p.silenced {
		return p.notOwner()
	}
	p.started, p.paused, p.sent = false, true, 0
	if from.Offset < 0 {
		return fmt.Errorf("watermill source: %s: position %d is negative", p.tp, from.Offset)
	}
	if from.Offset >= p.passed {
		p.drop(from.Offset)
	}
	if err := p.check(from); err != nil {
		return err
	}
	p.started, p.fresh, p.from = true, true, from.Offset
	return nil
}

// Resolve implements framework.Partition. It knows its own partition only, and of
// that only what the subscriber gives next.
func (p *held) Resolve(_ context.Context, rules offsetstore.StartRules) (framework.TopicStart, error) {
	if err := rules.Validate(); err != nil {
		return framework.TopicStart{}, refused(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead || p.silenced {
		return framework.TopicStart{}, p.notOwner()
	}
	first := max(p.passed, p.last+1)
	if len(p.queue) > 0 {
		first = p.queue[0].record.Offset
	}
	switch rule := rules.For(p.tp); rule.Kind() {
	case offsetstore.StartLatest, offsetstore.StartTimestamp:
		return framework.TopicStart{}, configError("framework.Config.Start: %v for %s: a %T cannot look for it; begin at earliest, or at an offset", rule, p.tp, p.r.cfg.Subscriber)
	case offsetstore.StartExact:
		if rule.Offset() < first {
			return framework.TopicStart{}, &framework.PositionError{TopicPartition: p.tp, Position: offsetstore.At(rule.Offset()), LogStart: first, LogEnd: first, Err: framework.ErrBelowLogStart}
		}
		first = rule.Offset()
	}
	return framework.TopicStart{Starts: map[int32]int64{p.tp.Partition: first}}, nil
}

// Pause implements framework.Partition.
func (p *held) Pause() { p.setPaused(true) }

// Resume implements framework.Partition.
func (p *held) Resume() { p.setPaused(false) }

func (p *held) setPaused(paused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = paused
	p.signal()
}

// Confirm implements framework.Partition. A subscriber does not tell who has a
// partition: as long as it is ours for all we know, the sink's claim decides.
func (p *held) Confirm(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return p.notOwner()
	}
	return nil
}

// Mirror implements framework.Partition: what is saved is acknowledged.
func (p *held) Mirror(pos offsetstore.Position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dead {
		p.drop(pos.Offset)
	}
}

// silence ends delivery, and waits for the one that is under way.
func (p *held) silence() {
	p.deliver.Lock()
	defer p.deliver.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silenced = true
}

func (p *held) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	close(p.gone)
}

func (p *held) nack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, it := range p.queue {
		for _, m := range it.messages {
			m.Nack()
		}
	}
	p.queue = nil
}

func (p *held) notOwner() error {
	return fmt.Errorf("watermill source: %s: %w", p.tp, framework.ErrNotOwner)
}
