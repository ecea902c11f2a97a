package cassandra

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// The operators of the simulation: they move the position, or finish what was left,
// while the processes go on.

// simReset is what a reset said.
type simReset struct {
	name string
	err  error
}

func resetName(proc int) string { return fmt.Sprintf("reset by p%d", proc) }

// once is the life of a process that does one thing.
func (p *simProc) once(do func()) {
	defer func() { p.w.mu.Lock(); p.done = true; p.w.mu.Unlock() }()
	if p.engine.enter() != nil {
		return
	}
	defer p.engine.running.Done()
	do()
}

// flush is what Sink.Flush does.
func (p *simProc) flush() {
	p.once(func() {
		err := p.engine.flushLane(p.engine.closing, p.w.lane)
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		p.w.trace("p%d: flush: %v", p.id, err)
		if err == nil {
			p.w.totals["flushes"]++
		}
		if errors.Is(err, framework.ErrCorrupt) {
			p.w.failf("I7: nothing was damaged, and Flush said: %v", err)
		}
	})
}

// reset is what Sink.Reset does, from the position that an operator has just read.
func (p *simProc) reset() {
	p.once(func() {
		p.w.mu.Lock()
		row := p.w.db.readLedger(p.w.lane)
		p.w.mu.Unlock()
		if row == nil {
			return
		}
		from := row.position.Offset
		err := p.engine.resetLane(p.engine.closing, p.w.lane, framework.Reset{
			From: row.position, To: offsetstore.At(10 + p.rng.Int64N(from-4)), DropState: p.rng.IntN(2) == 0,
		})
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		p.w.trace("p%d: reset: %v", p.id, err)
		if !p.dead {
			p.w.resets = append(p.w.resets, simReset{resetName(p.id), err})
		}
	})
}

// checkResets checks that what Reset said is true (I8).
func (w *simWorld) checkResets() {
	count := map[string]int{}
	for _, c := range w.chain {
		if c.reset {
			count[c.batch]++
		}
	}
	for _, r := range w.resets {
		n := count[r.name]
		switch {
		case r.err == nil && n != 1, r.err != nil && !errors.Is(r.err, framework.ErrUnknown) && n != 0, n > 1:
			w.failf("I8: Reset said %v, and it is in the chain %d times", r.err, n)
		case errors.Is(r.err, framework.ErrCorrupt):
			w.failf("I7: nothing was damaged, and Reset said: %v", r.err)
		case errors.Is(r.err, context.Canceled):
			w.failf("Reset was not cancelled, and said: %v", r.err)
		}
	}
}
