package sql

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
)

// The guard comes first in every save: it takes effect only if nobody has
// claimed, saved or moved the lane since, and everything that follows is in its
// transaction.
const guardLane = `
	UPDATE lockstep_lane
	SET saves = saves + 1, next_offset = ?, leader_epoch = ?, topic_id = ?, lane_data = ?, saved_at = ?
	WHERE id = ? AND claim = ? AND saves = ? AND next_offset = ?`

const readLane = `SELECT claim, owner, saves, next_offset FROM lockstep_lane WHERE id = ?`

// Save makes all of b durable in one transaction.
func (c *claim) Save(ctx context.Context, b *framework.Batch[Write]) error {
	groups, err := c.groups(b)
	if err != nil {
		return c.failed(err)
	}
	err = c.sink.call(ctx, func(ctx context.Context) error {
		err := c.sink.writers.transaction(ctx, func(w *writer) error { return c.write(ctx, w, b, groups) })
		var ce *commitError
		if errors.As(err, &ce) {
			return c.settle(ctx, ce)
		}
		return err
	})
	if err != nil {
		return c.failed(err)
	}
	c.saves++
	return nil
}

// write is the whole content of a save's transaction.
func (c *claim) write(ctx context.Context, w *writer, b *framework.Batch[Write], groups []*group) error {
	if err := c.guard(ctx, w, b); err != nil {
		return err
	}
	for _, g := range groups {
		if err := g.write(ctx, c.sink.dialect, w); err != nil {
			return err
		}
	}
	return nil
}

// groups returns everything that b writes beside the lane's row.
func (c *claim) groups(b *framework.Batch[Write]) ([]*group, error) {
	groups, err := c.sink.groupWrites(b.Writes)
	if err != nil {
		return nil, err
	}
	letters, err := c.deadLetterWrites(b.DeadLetters)
	if err != nil {
		return nil, err
	}
	return append(groups,
		&group{table: c.sink.dialect.stateTable(), writes: c.stateWrites(b.State)},
		&group{table: deadLetterTable, writes: letters}), nil
}

func (c *claim) guard(ctx context.Context, w *writer, b *framework.Batch[Write]) error {
	p := b.To.Position
	n, err := w.exec(ctx, guardLane, p.Offset, p.LeaderEpoch, p.TopicID[:], nonNil(b.To.Lane), time.Now().UnixMilli(),
		c.id, c.token, c.saves, b.From.Position.Offset)
	if err != nil {
		return err
	}
	if n != 1 {
		return c.whyRefused(ctx, w, b.From.Position.Offset)
	}
	return nil
}

// whyRefused reads the row that the guard did not match.
func (c *claim) whyRefused(ctx context.Context, w *writer, from int64) error {
	row, err := c.readRow(ctx, w)
	switch {
	case errors.Is(err, stdsql.ErrNoRows):
		return fmt.Errorf("%w: the row of the lane was removed", framework.ErrCorrupt)
	case err != nil:
		return err
	case row.claim != c.token:
		return fmt.Errorf("%w (now %q)", framework.ErrFenced, row.owner)
	default:
		return fmt.Errorf("%w: the batch continues from offset %d as save %d; stored are offset %d and save %d",
			framework.ErrCorrupt, from, c.saves, row.nextOffset, row.saves)
	}
}

type laneRow struct {
	claim, owner      string
	saves, nextOffset int64
}

func (c *claim) readRow(ctx context.Context, w *writer) (r laneRow, err error) {
	err = w.scan(ctx, readLane+c.sink.dialect.forUpdate(), []any{c.id}, &r.claim, &r.owner, &r.saves, &r.nextOffset)
	return r, err
}

// settle finds out what became of a transaction whose COMMIT failed. It waits
// until the database has decided, and then the save number tells. It returns nil
// if the save took effect.
func (c *claim) settle(ctx context.Context, ce *commitError) error {
	var row laneRow
	ctx = context.WithoutCancel(ctx)
	err := c.sink.writers.transaction(ctx, func(w *writer) (err error) {
		row, err = c.readRow(ctx, w)
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w; reading it back: %w", framework.ErrUnknown, ce, err)
	case row.saves == c.saves:
		return typed(c.sink.dialect, ce.err) // not saved, whoever owns the lane now
	case row.claim == c.token && row.saves == c.saves+1:
		return nil
	default:
		return fmt.Errorf("%w: %w; another owner has saved since", framework.ErrUnknown, ce)
	}
}

// failed says what is known of a save that returned err. All errors but those of
// a COMMIT are from before it, so that nothing was saved.
func (c *claim) failed(err error) error {
	e := &framework.SaveError{Outcome: framework.NotSaved, Err: c.wrap("save", err)}
	switch {
	case errors.Is(err, framework.ErrUnknown):
		e.Outcome, e.ClaimSpent = framework.Unknown, true
	case errors.Is(err, framework.ErrFenced), errors.Is(err, framework.ErrCorrupt), errors.Is(err, framework.ErrClosed):
		e.ClaimSpent = true
	}
	return e
}

// nonNil keeps a nil slice from being taken for a typed value by the driver.
func nonNil(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}
