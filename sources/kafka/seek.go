package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// seekGap is the least time between two rounds of seeks. Each round makes the
// client fetch anew, of all partitions; if hundreds of lanes start one after the
// other, the running ones must not starve.
const seekGap = 50 * time.Millisecond

// seek is a position to be set by the polling goroutine.
type seek struct {
	p    *partition
	to   offsetstore.Position
	log  standing // as it was checked; of the lane's start only
	own  *int     // a seek of our own, which leaves the lane's pause as it is: only while that many were set
	done chan error
}

// request queues s and interrupts the poll. It fails if nobody polls any more.
func (r *run) request(s *seek) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leaving {
		return s.p.notOwner()
	}
	r.seeks = append(r.seeks, s)
	r.wake()
	return nil
}

// dueSeeks takes the seeks that are due, and says how long a poll may last until
// others are. The caller holds mu.
func (r *run) dueSeeks() ([]*seek, time.Duration) {
	if len(r.seeks) == 0 {
		return nil, time.Hour
	}
	if wait := time.Until(r.lastSeek.Add(seekGap)); wait > 0 {
		return nil, wait
	}
	due := r.seeks
	r.seeks, r.lastSeek = nil, time.Now()
	return due, time.Hour
}

// failSeeks answers the seeks that nobody will carry out. The caller holds mu.
func (r *run) failSeeks() {
	for _, s := range r.seeks {
		s.done <- s.p.notOwner()
	}
	r.seeks = nil
}

// seekAll sets the positions in one step, since each step makes the client drop
// what it has buffered, of all partitions. The client ignores a seek to where it
// has read to; should it have moved back from there, admit notices.
func (r *run) seekAll(seeks []*seek) {
	if len(seeks) == 0 {
		return
	}
	to := make(map[string]map[int32]kgo.EpochOffset)
	for i, s := range seeks {
		if !s.p.stop(s.own) {
			s.done <- s.p.notOwner() // or overtaken by a start
			seeks[i] = nil
			continue
		}
		if to[s.p.tp.Topic] == nil {
			to[s.p.tp.Topic] = make(map[int32]kgo.EpochOffset)
		}
		to[s.p.tp.Topic][s.p.tp.Partition] = kgo.EpochOffset{Epoch: s.to.LeaderEpoch, Offset: s.to.Offset}
	}
	r.cl.SetOffsets(to)
	for _, s := range seeks {
		if s != nil {
			s.done <- s.p.moved(s)
		}
	}
}

// stop ends delivery until the next position is set.
func (p *partition) stop(own *int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead || own != nil && (!p.started || p.seeks != *own) {
		return false
	}
	p.started = false
	p.apply()
	return true
}

// moved notes that the client stands at s.to.
func (p *partition) moved(s *seek) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return p.notOwner()
	}
	p.seeks++
	p.next, p.readSince = s.to, time.Now()
	p.started, p.suspended = true, false
	if s.own == nil {
		p.paused, p.from, p.log, p.announce = true, s.to.Offset, s.log, true
		if !p.mirrored {
			p.mirror = s.to
		}
		p.compareStart()
	}
	p.apply()
	return nil
}

// seek has the polling goroutine set the position where the lane starts.
func (p *partition) seek(ctx context.Context, to offsetstore.Position, log standing) error {
	return p.await(ctx, &seek{p: p, to: to, log: log, done: make(chan error, 1)})
}

// seekBack is a seek of our own: it leaves the lane's pause as it is.
func (p *partition) seekBack(ctx context.Context, to offsetstore.Position, seeks int) error {
	return p.await(ctx, &seek{p: p, to: to, own: &seeks, done: make(chan error, 1)})
}

func (p *partition) await(ctx context.Context, s *seek) error {
	if err := p.run.request(s); err != nil {
		return err
	}
	select {
	case err := <-s.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
