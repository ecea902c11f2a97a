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

// flush is what Sink.Flush does.
func (p *simProc) flush(l *simLane) {
	p.launch("flush", func() {
		err := p.engine.flushLane(p.callContext(l), l.key)
		if p.stopped() {
			return
		}
		p.w.note(p.name(), "flush", outcomeOf(err))
		switch {
		case err == nil:
			p.w.count("flushes", 1)
		case errors.Is(err, framework.ErrCorrupt):
			p.w.failf("I7: nothing was damaged, and Flush said: %v", err)
		}
	})
}

// reset is what Sink.Reset does, from the position that an operator has just read.
func (p *simProc) reset(l *simLane) {
	to, drop := p.w.rng.Float64(), p.w.rng.IntN(2) == 0
	p.launch("reset", func() {
		row := p.w.db.readLedger(l.key)
		if row == nil {
			return
		}
		// Rarely far back, or else the lane would never get on.
		offset := row.position.Offset + 5 - int64(to*to*float64(row.position.Offset+5-simEarliest))
		err := p.engine.resetLane(p.callContext(l), l.key, framework.Reset{
			From: row.position, To: offsetstore.At(offset), DropState: drop,
		})
		p.w.mu.Lock()
		dead := p.dead
		if !dead {
			p.w.resets = append(p.w.resets, simReset{resetName(p.id), err})
		}
		p.w.mu.Unlock()
		if !dead {
			p.w.note(p.name(), "reset", outcomeOf(err))
		}
	})
}

// callContext is what Sink.begin makes of a caller's context.
func (p *simProc) callContext(l *simLane) context.Context {
	return context.WithValue(p.engine.closing, laneOf{}, l)
}

// checkResets checks that what Reset said is true (I8).
func (w *simWorld) checkResets() {
	count := map[string]int{}
	for _, l := range w.lanes {
		for _, c := range l.chain {
			if c.reset {
				count[c.batch]++
			}
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
