package framework

import (
	"errors"
	"time"
)

// idleSaves is how often a batch that only moves the position is saved at most.
const idleSaves = time.Second

// work is the loop of a tenure: compute a batch while the one before is being
// saved. It returns nil when the lane was drained.
func (l *lane[W]) work() error {
	t := l.tenure
	for {
		l.attention.Store(false)
		if err := l.collect(); err != nil {
			return err
		}
		if l.ctx.Err() != nil {
			return errGone
		}
		if err := l.inbox.failure(); errors.Is(err, ErrAboveLogEnd) {
			return err // what was read may have been replaced
		}
		if !l.ripe() {
			if err := l.fill(); err != nil {
				return err
			}
		}
		l.finish()
		if l.ripe() {
			if err := l.seal(); err != nil {
				return err
			}
		}
		l.launch()
		if l.closing() && t.saving == nil && t.sealed == nil {
			return t.final
		}
		if err := l.wait(); err != nil {
			return err
		}
	}
}

// closing reports whether the lane takes no more records.
func (l *lane[W]) closing() bool { return l.soft.Err() != nil || l.tenure.final != nil }

// finish ends the tenure after the last record that the source could read.
func (l *lane[W]) finish() {
	if l.closing() || !l.idle() {
		return
	}
	err := l.inbox.failure()
	var pe *PositionError
	if err != nil && !errors.As(err, &pe) {
		err = &LaneError{l.e.pipeline.name, l.tp, l.tenure.saved.Position.Offset, "read", err}
	}
	l.tenure.final = err
}

// fill processes records until the batch is full, none are waiting, or
// something else needs attention.
func (l *lane[W]) fill() error {
	t := l.tenure
	for t.sealed == nil && !l.closing() && !l.attention.Load() && !l.full() {
		if len(t.head.records) == 0 && !l.nextChunk() {
			return nil
		}
		n, err := l.process(t.head.records)
		if err != nil {
			if err = l.failed(&t.head.records[n], err); err != nil {
				return err
			}
			if l.closing() {
				return nil // the record is not done
			}
			n++
		}
		t.head.records = t.head.records[n:]
	}
	return nil
}

// nextChunk takes records from the inbox, giving back the memory of those done.
func (l *lane[W]) nextChunk() bool {
	t := l.tenure
	if t.head.bytes > 0 {
		l.inbox.hold(-t.head.bytes)
	}
	t.head = l.inbox.take()
	if len(t.head.records) == 0 {
		return false
	}
	t.behind = t.head.behind
	return true
}

// full reports whether the batch has reached a limit, or the record at fault. One
// that only moves the position reaches no limit, since it holds nothing.
func (l *lane[W]) full() bool {
	c := &l.tenure.cur
	if c.records > 0 && l.tenure.last == l.limits.culprit {
		// Saved at once, so that no other record is blamed before this one is done.
		return true
	}
	if l.positionOnly() {
		return false
	}
	held, memory := l.pairs()
	return c.records >= l.limits.records || c.bytes+held >= c.limit || c.read+memory >= c.room
}

// pairs returns the bytes that reductions will add when the batch closes, as an
// estimate, and those that their pairs take until then.
func (l *lane[W]) pairs() (held, memory int) {
	for _, b := range l.tenure.chain.barriers {
		held += b.held()
		memory += b.memory()
	}
	return held, memory
}

func (l *lane[W]) positionOnly() bool {
	c := &l.tenure.cur
	held, _ := l.pairs()
	return len(c.Writes) == 0 && len(c.DeadLetters) == 0 && held == 0
}

// ripe reports whether the batch should close now. While a save is in flight it
// goes on growing, since it could not be saved yet anyway.
func (l *lane[W]) ripe() bool {
	t := l.tenure
	switch {
	case t.cur.records == 0 || t.sealed != nil:
		return false
	case l.full():
		return true
	case t.saving != nil:
		return false
	case l.closing():
		return true
	case l.positionOnly():
		return l.positionDue()
	default:
		return t.overdue.Load() || l.caughtUp()
	}
}

// idle reports whether no records wait.
func (l *lane[W]) idle() bool {
	empty, _ := l.inbox.empty()
	return len(l.tenure.head.records) == 0 && empty
}

// caughtUp reports whether no records wait and none are known to be on their
// way. A source that delivers a backlog in bursts leaves the lane idle between
// two of them; a batch that grows over several costs the sink less.
func (l *lane[W]) caughtUp() bool {
	_, flowing := l.inbox.empty()
	return l.idle() && (!flowing || !l.tenure.behind)
}

// positionDue reports whether a batch that only moves the position may be saved
// yet, and sees to it that the lane wakes when it may.
func (l *lane[W]) positionDue() bool {
	t := l.tenure
	wait := idleSaves - time.Since(t.savedAt)
	if wait > 0 {
		t.timer.Reset(min(wait, l.e.cfg.BatchDelay))
	}
	return wait <= 0
}

// wait waits until a save ends, records arrive, the batch is due, or the lane
// is to end.
func (l *lane[W]) wait() error {
	if l.attention.Load() || l.canFill() {
		return nil
	}
	select {
	case r := <-l.tenure.results:
		return l.landed(r)
	case <-l.wake:
		return nil
	}
}

// collect takes the result of the save in flight, if it has ended.
func (l *lane[W]) collect() error {
	select {
	case r := <-l.tenure.results:
		return l.landed(r)
	default:
		return nil
	}
}

// canFill reports whether fill would find something to do.
func (l *lane[W]) canFill() bool {
	return l.tenure.sealed == nil && !l.closing() && !l.full() && !l.idle()
}
