package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/memory"
)

type (
	rowSink  = framework.Sink[memory.Row]
	rowClaim = framework.Claim[memory.Row]
	rowBatch = framework.Batch[memory.Row]
)

// weather is how badly the database is reached. Chances are per call.
type weather struct {
	mu       sync.Mutex
	rng      *rand.Rand
	failing  float64       // refused before anything happened
	unknown  float64       // request or answer lost, or the request late
	slowness time.Duration // longest time a call takes
}

// fate is what becomes of one call.
type fate uint8

const (
	fateGood fate = iota
	fateFails
	fateRequestLost
	fateAnswerLost
	fateLate
)

func (w *weather) draw() (f fate, takes time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	takes = time.Millisecond
	if w.slowness > 0 {
		takes += time.Duration(w.rng.Int64N(int64(w.slowness)))
	}
	switch x := w.rng.Float64(); {
	case x < w.failing:
		return fateFails, takes
	case x < w.failing+w.unknown:
		return fateRequestLost + fate(w.rng.IntN(3)), takes
	}
	return fateGood, takes
}

func (w *weather) set(failing, unknown float64, slowness time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failing, w.unknown, w.slowness = failing, unknown, slowness
}

// database is the store with the record of what took effect, in order.
type database struct {
	mu     sync.Mutex // held over each step and its record
	store  *memory.Store[memory.Row]
	chains map[offsetstore.TopicPartition][]link
	owners map[offsetstore.TopicPartition]*process
	totals totals
}

// link is one committed save.
type link struct{ from, to int64 }

func newDatabase() *database {
	return &database{
		store:  memory.NewStore[memory.Row](),
		chains: map[offsetstore.TopicPartition][]link{},
		owners: map[offsetstore.TopicPartition]*process{},
		totals: totals{},
	}
}

// claimed records who owns tp from now on.
func (d *database) claimed(tp offsetstore.TopicPartition, p *process) {
	d.totals.add("claims", 1)
	if former := d.owners[tp]; former != nil && former != p && former.gate.paused() {
		d.totals.add("takeovers while the owner was paused", 1)
	}
	d.owners[tp] = p
}

// saved records how a save ended.
func (d *database) saved(tp offsetstore.TopicPartition, b *rowBatch, err error) {
	switch {
	case err == nil:
		d.chains[tp] = append(d.chains[tp], link{b.From.Position.Offset, b.To.Position.Offset})
		d.totals.add("saves", 1)
	case errors.Is(err, framework.ErrFenced):
		d.totals.add("fenced saves", 1)
	}
}

// processSink is the database as one process reaches it, over a network that
// loses things.
type processSink struct {
	rowSink // a sink of the store, or a broken one on top
	db      *database
	p       *process
}

// call lets the process and the network do what they do to a call.
func (s *processSink) call(ctx context.Context) (fate, error) {
	if err := s.p.gate.pass(); err != nil {
		return fateFails, err
	}
	f, takes := s.p.weather.draw()
	if takes > time.Second {
		s.db.totals.add("slow calls", 1)
	}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return fateFails, ctx.Err()
	}
	return f, s.p.gate.pass()
}

func (s *processSink) Topic(ctx context.Context, pipeline, topic string, propose framework.TopicStart) (framework.TopicStart, error) {
	f, err := s.call(ctx)
	if err == nil && f != fateGood {
		err = lost(f)
	}
	if err != nil {
		return framework.TopicStart{}, err
	}
	return s.rowSink.Topic(ctx, pipeline, topic, propose)
}

func (s *processSink) Claim(ctx context.Context, pipeline string, tp offsetstore.TopicPartition, start offsetstore.Position) (rowClaim, error) {
	f, err := s.call(ctx)
	if err != nil {
		return nil, err
	}
	if f == fateFails || f == fateRequestLost || f == fateLate {
		s.db.totals.add("failed claims", 1)
		return nil, lost(f)
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	inner, err := s.rowSink.Claim(context.WithoutCancel(ctx), pipeline, tp, start)
	if err != nil {
		return nil, err
	}
	s.db.claimed(tp, s.p)
	if f == fateAnswerLost {
		s.db.totals.add("claims whose answer was lost", 1)
		return nil, lost(f)
	}
	return &processClaim{rowClaim: inner, sink: s, tp: tp}, nil
}

type processClaim struct {
	rowClaim
	sink *processSink
	tp   offsetstore.TopicPartition
}

func (c *processClaim) Load(ctx context.Context, keys []framework.StateKey) ([][]byte, error) {
	f, err := c.sink.call(ctx)
	if err == nil && f != fateGood {
		c.sink.db.totals.add("failed loads", 1)
		err = lost(f)
	}
	if err != nil {
		return nil, err
	}
	return c.rowClaim.Load(ctx, keys)
}

func (c *processClaim) Save(ctx context.Context, b *rowBatch) error {
	f, err := c.sink.call(ctx)
	if err != nil {
		return &framework.SaveError{Outcome: framework.NotSaved, Err: err}
	}
	totals := c.sink.db.totals
	switch f {
	case fateFails:
		totals.add("saves that failed", 1)
		return &framework.SaveError{Outcome: framework.NotSaved, Err: lost(f)}
	case fateRequestLost:
		totals.add("unknown: request lost", 1)
		return unknown(f)
	case fateLate:
		totals.add("unknown: request late", 1)
		c.saveLater(cloneBatch(b))
		return unknown(f)
	}
	err = c.save(b)
	if f == fateAnswerLost {
		totals.add("unknown: answer lost", 1)
		return unknown(f)
	}
	if killed := c.sink.p.gate.pass(); killed != nil {
		return &framework.SaveError{Outcome: framework.Unknown, ClaimSpent: true, Err: killed}
	}
	return err
}

func (c *processClaim) save(b *rowBatch) error {
	db := c.sink.db
	db.mu.Lock()
	defer db.mu.Unlock()
	err := c.rowClaim.Save(context.Background(), b)
	db.saved(c.tp, b, err)
	return err
}

// saveLater is a request that was given up by its sender and still arrives.
func (c *processClaim) saveLater(b *rowBatch) {
	_, takes := c.sink.p.weather.draw()
	c.sink.p.world.wg.Go(func() {
		time.Sleep(50*time.Millisecond + 10*takes)
		if c.save(b) == nil {
			c.sink.db.totals.add("late requests that took effect", 1)
		}
	})
}

func (c *processClaim) Release(ctx context.Context) error {
	f, err := c.sink.call(ctx)
	if err == nil && f != fateGood {
		err = lost(f)
	}
	if err != nil {
		return err
	}
	return c.rowClaim.Release(ctx)
}

func lost(f fate) error {
	return fmt.Errorf("%w: %s", framework.ErrUnavailable, [...]string{"", "refused", "request lost", "answer lost", "request late"}[f])
}

func unknown(f fate) error {
	return &framework.SaveError{Outcome: framework.Unknown, ClaimSpent: true, Err: fmt.Errorf("%w: %w", framework.ErrUnknown, lost(f))}
}

// cloneBatch copies what the sink must not retain.
func cloneBatch(b *rowBatch) *rowBatch {
	c := *b
	c.From.Lane, c.To.Lane = bytes.Clone(b.From.Lane), bytes.Clone(b.To.Lane)
	c.Writes = slices.Clone(b.Writes)
	c.State = slices.Clone(b.State)
	for i, e := range c.State {
		c.State[i].Key, c.State[i].Value = bytes.Clone(e.Key), bytes.Clone(e.Value)
	}
	c.DeadLetters = slices.Clone(b.DeadLetters)
	for i, d := range c.DeadLetters {
		c.DeadLetters[i].Key, c.DeadLetters[i].Value = bytes.Clone(d.Key), bytes.Clone(d.Value)
	}
	return &c
}
