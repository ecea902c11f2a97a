package frameworktest

import (
	"context"
	"slices"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Partition is one assignment. It implements framework.Partition. Its fields
// are guarded by the source's lock.
type Partition struct {
	source   *Source
	tp       offsetstore.TopicPartition
	next     int64
	paused   bool
	dead     bool
	disowned bool
}

// TopicPartition implements framework.Partition.
func (p *Partition) TopicPartition() offsetstore.TopicPartition { return p.tp }

// Resolve implements framework.Partition.
func (p *Partition) Resolve(ctx context.Context, rules offsetstore.StartRules) (framework.TopicStart, error) {
	l := p.source.log
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[p.tp.Topic]
	start := framework.TopicStart{ClusterID: "frameworktest", TopicID: t.id, Starts: map[int32]int64{}}
	for i, pl := range t.partitions {
		tp := offsetstore.TopicPartition{Topic: p.tp.Topic, Partition: i}
		start.Starts[i] = pl.resolve(rules.For(tp))
		if err := pl.admits(tp, offsetstore.At(start.Starts[i]), t.id); err != nil {
			return framework.TopicStart{}, err
		}
	}
	return start, ctx.Err()
}

// admits refuses a position that the log does not hold.
func (p *partitionLog) admits(tp offsetstore.TopicPartition, from offsetstore.Position, id offsetstore.TopicID) error {
	fault := &framework.PositionError{TopicPartition: tp, Position: from, LogStart: p.start, LogEnd: p.end, TopicID: id}
	switch {
	case from.Offset < p.start:
		fault.Err = framework.ErrBelowLogStart
	case from.Offset > p.end:
		fault.Err = framework.ErrAboveLogEnd
	default:
		return nil
	}
	return fault
}

func (p *partitionLog) resolve(r offsetstore.StartRule) int64 {
	switch r.Kind() {
	case offsetstore.StartLatest:
		return p.end
	case offsetstore.StartExact:
		return r.Offset()
	case offsetstore.StartTimestamp:
		i := slices.IndexFunc(p.records, func(rec framework.Record) bool { return !rec.Timestamp.Before(r.Time()) })
		if i < 0 {
			return p.end
		}
		return p.records[i].Offset
	default:
		return p.start
	}
}

// Start implements framework.Partition.
func (p *Partition) Start(ctx context.Context, from offsetstore.Position) error {
	if err := p.check(from); err != nil {
		return err
	}
	s := p.source
	s.delivery.Lock()
	defer s.delivery.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.dead {
		return framework.ErrNotOwner
	}
	p.next, p.paused = from.Offset, true
	return ctx.Err()
}

func (p *Partition) check(from offsetstore.Position) error {
	l := p.source.log
	l.mu.Lock()
	defer l.mu.Unlock()
	pl := l.partition(p.tp.Topic, p.tp.Partition)
	id := l.topics[p.tp.Topic].id
	if !from.TopicID.IsZero() && from.TopicID != id {
		return &framework.PositionError{
			TopicPartition: p.tp, Position: from, LogStart: pl.start, LogEnd: pl.end, TopicID: id, Err: framework.ErrTopicRecreated,
		}
	}
	return pl.admits(p.tp, from, id)
}

// advance moves past records, unless the partition was paused or lost since
// they were read.
func (p *Partition) advance(records []framework.Record) bool {
	s := p.source
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.paused || p.dead {
		return false
	}
	p.next = records[len(records)-1].Offset + 1
	return true
}

// Pause implements framework.Partition.
func (p *Partition) Pause() { p.set(true) }

// Resume implements framework.Partition.
func (p *Partition) Resume() { p.set(false) }

func (p *Partition) set(paused bool) {
	s := p.source
	s.mu.Lock()
	defer s.mu.Unlock()
	if !p.dead {
		p.paused = paused
		s.signal()
	}
}

// Confirm implements framework.Partition.
func (p *Partition) Confirm(ctx context.Context) error {
	s := p.source
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.dead || p.disowned {
		return framework.ErrNotOwner
	}
	return ctx.Err()
}

// Mirror implements framework.Partition.
func (p *Partition) Mirror(pos offsetstore.Position) {
	s := p.source
	s.mu.Lock()
	defer s.mu.Unlock()
	if !p.dead {
		s.mirrored[p.tp] = pos
	}
}
