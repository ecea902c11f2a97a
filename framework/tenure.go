package framework

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// tenure is what a lane knows under one claim. After the claim is spent none of
// it is trusted: the next tenure begins with what the sink says.
type tenure[W any] struct {
	stage string // what the lane is doing, for errors
	claim Claim[W]
	spent bool // the claim must not be used any more

	waitingSince time.Time // for the first record; zero once it came
	saved        Progress  // of the last save that returned nil, or of the claim
	savedAt      time.Time // when that was; zero after a claim
	end          Progress  // where the batch being computed ends; its Lane is not kept up
	counters     Counters  // as of end
	start        int64     // offsets below it were saved before this tenure
	last         int64     // the last offset delivered in this tenure

	call  call
	chain *builder

	behind  bool        // when head was read, much more was in the log
	head    chunk       // taken from the inbox; records not processed yet
	cur     batch[W]    // being computed
	sealed  *batch[W]   // complete; waits for the save before it
	saving  *batch[W]   // given to the sink
	spare   *batch[W]   // saved; its memory is used again
	results chan result // of saving

	overdue atomic.Bool // cur has waited for BatchDelay
	timer   *time.Timer // sets overdue
	final   error       // the tenure ends with this once everything processed is saved
}

// result is how a save ended.
type result struct {
	err  error
	took time.Duration
}

func newTenure[W any](l *lane[W]) *tenure[W] {
	t := &tenure[W]{results: make(chan result, 1)}
	t.call = call{ctx: l.ctx, pipeline: l.e.pipeline.name, tp: l.tp}
	t.cur = t.fresh(l.e)
	t.chain = &builder{call: &t.call, junction: map[any]any{}, cacheBytes: func() int {
		return l.e.laneCache() / len(t.chain.barriers)
	}}
	connect(t.chain, l.e.pipeline.root, l.output)
	t.timer = time.AfterFunc(time.Hour, func() {
		t.overdue.Store(true)
		l.attend()
	})
	t.timer.Stop()
	return t
}

// took begins the tenure with what the sink says.
func (t *tenure[W]) took(c Claim[W]) error {
	t.claim, t.saved = c, c.Progress()
	t.end = t.saved
	t.start = t.saved.Position.Offset
	t.last = t.start - 1
	var err error
	if t.counters, err = DecodeCounters(t.saved.Lane); err != nil {
		return fmt.Errorf("saved position %d: %w", t.start, err)
	}
	return nil
}

// save calls the sink, and notes whether the claim can be used afterwards: not
// while the sink has not said so, since its call may never return.
func (t *tenure[W]) save(ctx context.Context, b *Batch[W]) error {
	t.spent = true
	err := guardSave(ctx, t.claim, b)
	var se *SaveError
	t.spent = err != nil && (!errors.As(err, &se) || se.ClaimSpent)
	return err
}

// guardSave keeps a panicking sink from taking the process with it: what it did
// is unknown.
func guardSave[W any](ctx context.Context, c Claim[W], b *Batch[W]) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &SaveError{Outcome: Unknown, ClaimSpent: true, Err: newPanic(v)}
		}
	}()
	return c.Save(ctx, b)
}
