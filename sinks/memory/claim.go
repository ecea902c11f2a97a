package memory

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// claim is the ownership of one lane: good for as long as its token is the one
// in the lane.
type claim[W any] struct {
	sink     *Sink[W]
	pipeline string
	tp       offsetstore.TopicPartition
	lane     *lane[W] // guarded by the store's lock
	token    uint64
	progress framework.Progress
}

// Progress returns what was saved last, as of the claim.
func (c *claim[W]) Progress() framework.Progress { return cloneProgress(c.progress) }

// Load returns the value of each key, nil where there is none. A fenced owner
// may read: what it makes of it can never be saved.
func (c *claim[W]) Load(ctx context.Context, keys []framework.StateKey) ([][]byte, error) {
	values := make([][]byte, len(keys))
	err := c.sink.enter(ctx, func(ctx context.Context) error {
		if hook := c.sink.hooks.BeforeLoad; hook != nil {
			return hook(ctx, c.pipeline, c.tp, keys)
		}
		return nil
	}, func() {
		for i, k := range keys {
			values[i] = bytes.Clone(c.lane.state[asMapKey(k)])
		}
	})
	if err != nil {
		return nil, c.wrap("load", err)
	}
	return values, nil
}

// Save makes all of b durable under the store's lock, which is the whole of its
// atomicity.
func (c *claim[W]) Save(ctx context.Context, b *framework.Batch[W]) error {
	var refused error
	err := c.sink.enter(ctx, func(ctx context.Context) error {
		if hook := c.sink.hooks.BeforeSave; hook != nil {
			return hook(ctx, c.pipeline, c.tp, b)
		}
		return nil
	}, func() {
		if refused = c.mayCommit(b); refused == nil {
			c.commit(b)
		}
	})
	if err != nil {
		return c.notSaved(err)
	}
	if refused != nil {
		return refused
	}
	return c.sink.runHook(ctx, func(ctx context.Context) error {
		if hook := c.sink.hooks.AfterSave; hook != nil {
			return hook(ctx, c.pipeline, c.tp, b)
		}
		return nil
	})
}

// mayCommit refuses the save of a former owner, and one that does not continue
// where the lane is.
func (c *claim[W]) mayCommit(b *framework.Batch[W]) error {
	if c.lane.claim != c.token {
		return &framework.SaveError{
			Outcome:    framework.NotSaved,
			ClaimSpent: true,
			Err:        c.wrap("save", fmt.Errorf("%w (now %q)", framework.ErrFenced, c.lane.owner)),
		}
	}
	if at := c.lane.progress.Position.Offset; at != b.From.Position.Offset {
		return &framework.SaveError{
			Outcome:    framework.NotSaved,
			ClaimSpent: true,
			Err:        c.wrap("save", fmt.Errorf("%w: the batch continues from offset %d, stored is %d", framework.ErrCorrupt, b.From.Position.Offset, at)),
		}
	}
	return nil
}

// commit applies every part of b. The caller holds the store's lock, so no
// reader sees it half done.
func (c *claim[W]) commit(b *framework.Batch[W]) {
	l, s := c.lane, c.sink.store
	if s.keep == KeepAll {
		l.writes = append(l.writes, b.Writes...)
	}
	if rows, ok := any(b.Writes).([]Row); ok {
		s.applyRows(rows)
	}
	for _, e := range b.State {
		if e.Value == nil {
			delete(l.state, asMapKey(e.StateKey))
		} else {
			l.state[asMapKey(e.StateKey)] = bytes.Clone(e.Value)
		}
	}
	l.bury(cloneDeadLetters(b.DeadLetters))
	l.progress = cloneProgress(b.To)
	l.saves++
	l.count += len(b.Writes)
	l.savedAt = time.Now()
}

// bury keeps the letters in offset order. A record that fails again, after a reset,
// replaces its letter.
func (l *lane[W]) bury(letters []framework.DeadLetter) {
	for _, d := range letters {
		at, again := slices.BinarySearchFunc(l.dead, d.Offset, func(d framework.DeadLetter, offset int64) int { return cmp.Compare(d.Offset, offset) })
		if again {
			l.dead[at] = d
		} else {
			l.dead = slices.Insert(l.dead, at, d)
		}
	}
}

// notSaved is the error of a save that was stopped before the lock: nothing of
// it took effect. What a hook returned stands as it is.
func (c *claim[W]) notSaved(err error) error {
	var already *framework.SaveError
	closed := errors.Is(err, framework.ErrClosed)
	cancelled := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if errors.As(err, &already) || !closed && !cancelled {
		return err
	}
	return &framework.SaveError{Outcome: framework.NotSaved, ClaimSpent: closed, Err: c.wrap("save", err)}
}

// Release gives the ownership up, unless another owner has it by now.
func (c *claim[W]) Release(ctx context.Context) error {
	err := c.sink.enter(ctx, func(ctx context.Context) error {
		if hook := c.sink.hooks.BeforeRelease; hook != nil {
			return hook(ctx, c.pipeline, c.tp)
		}
		return nil
	}, func() {
		if c.lane.claim == c.token {
			c.lane.claim, c.lane.owner = 0, ""
		}
	})
	if err != nil {
		return c.wrap("release", err)
	}
	return nil
}

func (c *claim[W]) wrap(what string, err error) error {
	return fmt.Errorf("memory: pipeline %q: %s of %s: %w", c.pipeline, what, c.tp, err)
}

func asMapKey(k framework.StateKey) stateKey {
	return stateKey{operator: k.Operator, window: k.Window, key: string(k.Key)}
}
