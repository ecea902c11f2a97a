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

	began    time.Time // when it began to wait for records, zero once one came
	saved    Progress  // of the last save that returned nil, or of the claim
	savedAt  time.Time // when that was; zero after a claim
	end      Progress  // where the batch being computed ends; its Lane is not kept up
	counters Counters  // as of end
	start    int64     // offsets below it were saved before this tenure
	last     int64     // the last offset delivered in this tenure

	call  call
	chain *builder

	behind  bool     // when head was read, much more was in the log
	head    chunk    // taken from the inbox; records not processed yet
	cur     batch[W] // being computed
	sealed  *batch[W]
	saving  *batch[W]
	spare   *batch[W] // its memory is used again
	results chan result

	due   atomic.Bool // cur has waited for BatchDelay
	timer *time.Timer
	final error // the tenure ends with this once everything processed is saved
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
	t.chain = &builder{call: &t.call, junction: map[any]any{}}
	connect(t.chain, l.e.pipeline.root, l.output)
	t.timer = time.AfterFunc(time.Hour, func() {
		t.due.Store(true)
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

// save calls the sink, and notes whether the claim can be used afterwards.
func (t *tenure[W]) save(ctx context.Context, b *Batch[W]) error {
	err := guardSave(ctx, t.claim, b)
	var se *SaveError
	if err != nil && (!errors.As(err, &se) || se.ClaimSpent) {
		t.spent = true
	}
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
