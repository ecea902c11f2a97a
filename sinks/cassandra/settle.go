package cassandra

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// settler does what a claim leaves for later, in one goroutine that exists only
// while there is something to do: it removes stage rows that nothing refers to
// any more, and, once the lane is idle, marks the last save as applied. All of it
// is best effort: what is left undone costs space, or work for the next claim.
type settler struct {
	c    *claim
	ctx  context.Context // ends at release, spending, or Close of the sink
	halt context.CancelFunc

	mu      sync.Mutex
	running bool
	done    chan struct{} // closed when the goroutine has ended
	garbage []stageKey
	seq     int64     // the save to mark, 0: none
	staged  *stageKey // its stage rows: garbage once it is marked
	due     time.Time
}

// settlerBacklog bounds what a settler remembers to remove.
const settlerBacklog = 64

func newSettler(c *claim) *settler {
	s := &settler{c: c}
	s.ctx, s.halt = context.WithCancel(c.closing)
	return s
}

// saved tells that save seq is committed and applied, with its stage rows if it
// has any. Those of the save before become garbage.
func (s *settler) saved(seq int64, staged *stageKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.staged != nil {
		s.discardLocked(*s.staged)
	}
	// Not the new ones: until the mark is there a claim would have to read them.
	s.seq, s.staged, s.due = seq, staged, time.Now().Add(s.c.tuning.idleMark)
	s.start()
}

// settled is saved for a save that needs no mark: an empty one.
func (s *settler) settled() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.staged != nil {
		s.discardLocked(*s.staged)
	}
	s.seq, s.staged = 0, nil
	s.start()
}

// discard tells that nothing refers to these stage rows any more.
func (s *settler) discard(keys ...stageKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.discardLocked(keys...)
	s.start()
}

func (s *settler) discardLocked(keys ...stageKey) {
	s.garbage = append(s.garbage, keys...)
	if n := len(s.garbage) - settlerBacklog; n > 0 {
		s.garbage = s.garbage[n:]
	}
}

// start starts the goroutine if there is work and none runs. mu is held.
func (s *settler) start() {
	if s.running || s.seq == 0 && len(s.garbage) == 0 || s.ctx.Err() != nil || s.c.enter() != nil {
		return
	}
	s.running, s.done = true, make(chan struct{})
	done := s.done
	s.c.spawn(func() { s.run(done) })
}

func (s *settler) run(done chan struct{}) {
	defer s.c.running.Done()
	defer close(done)
	for s.ctx.Err() == nil {
		// Each round: clean up, then wait for the lane to be idle. A save that comes
		// meanwhile moves the time; the goroutine sleeps through it and looks again.
		s.removeGarbage(s.ctx)
		wait, seq, more := s.next()
		if !more {
			return
		}
		if wait > 0 {
			_ = s.c.clock.sleep(s.ctx, wait)
			continue
		}
		s.mark(seq)
	}
	s.mu.Lock()
	s.running = false
	s.mu.Unlock()
}

// next returns how long to wait, and then what to mark. When nothing is left it
// says so, and counts the goroutine as ended.
func (s *settler) next() (wait time.Duration, seq int64, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seq == 0 {
		s.running = len(s.garbage) > 0
		return 0, 0, s.running
	}
	return time.Until(s.due), s.seq, true
}

// mark marks save seq as applied. That a later save or claim came first is no
// error: then it was not ours to mark any more.
func (s *settler) mark(seq int64) {
	// It may not be in the tables any more: then the next claim applies it again.
	if s.c.trusted() != nil {
		return
	}
	marked, err := s.c.store.execute(s.ctx, markStatement(s.c.lane, s.c.token, seq))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seq != seq {
		return
	}
	if err != nil {
		// An unmarked save would be applied again by the next claim, however late,
		// and could bring back rows that were deleted since. So do not give up.
		s.c.log.Debug("cassandra: mark as applied failed", "lane", s.c.lane.String(), "save", seq, "error", err)
		s.due = time.Now().Add(s.c.tuning.retryMost)
		return
	}
	// Only a mark known to be there makes the content useless.
	if marked && s.staged != nil {
		s.discardLocked(*s.staged)
		s.staged = nil
	}
	s.seq = 0
}

// removeAll removes what is left, with the stage rows of the last save: the
// release has marked it. Call it after wait.
func (s *settler) removeAll(ctx context.Context) {
	s.mu.Lock()
	if s.staged != nil {
		s.discardLocked(*s.staged)
		s.staged = nil
	}
	s.mu.Unlock()
	s.removeGarbage(ctx)
}

// removeGarbage tries each key once.
func (s *settler) removeGarbage(ctx context.Context) {
	s.mu.Lock()
	keys := s.garbage
	s.garbage = nil
	s.mu.Unlock()
	s.c.removeStage(ctx, keys)
}

// stop ends the work without waiting for it.
func (s *settler) stop() { s.halt() }

// wait returns when the goroutine has ended. Call it after stop.
func (s *settler) wait() {
	s.mu.Lock()
	done := s.done
	s.mu.Unlock()
	if done != nil {
		<-done
	}
}

// Release implements [framework.Claim]. If the last save is not known to be
// applied, or the claim is spent, there is nothing to give up: the next claim
// does what is left to do.
func (c *claim) Release(ctx context.Context) error {
	// First, so that its statements cannot come after the release.
	c.settler.stop()
	c.settler.wait()
	// The release marks the last save as applied, too.
	if c.trusted() != nil || !c.release() {
		return nil
	}
	ctx, end, err := c.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	next, err := c.engine.token()
	if err != nil {
		return fmt.Errorf("%s: release: make a claim token: %w", c.lane, err)
	}
	released, err := c.store.execute(ctx, releaseStatement(c.lane, c.token, next, c.seq))
	if err != nil {
		return fmt.Errorf("%s: release: %w", c.lane, storeError(err))
	}
	if released {
		c.settler.removeAll(ctx)
	}
	return nil
}

// release makes the claim unusable, and reports whether it was good until now.
func (c *claim) release() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	good := !c.released && c.spent == nil
	c.released = true
	return good
}
