package sql

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// resetLane takes the token out of the row, so that no claim matches it any more,
// and counts as a save, so that none can take it for its own.
const resetLane = `
	UPDATE lockstep_lane
	SET claim = '', owner = '', saves = saves + 1, next_offset = ?, leader_epoch = ?, topic_id = ?
	WHERE pipeline = ? AND topic = ? AND partition = ? AND next_offset = ? AND leader_epoch = ? AND topic_id = ?`

const dropLaneState = `
	DELETE FROM lockstep_state
	WHERE lane_id = (SELECT id FROM lockstep_lane WHERE pipeline = ? AND topic = ? AND partition = ?)`

const readPosition = `
	SELECT next_offset, leader_epoch, topic_id FROM lockstep_lane WHERE pipeline = ? AND topic = ? AND partition = ?`

// Reset moves a position that is r.From to r.To in one transaction, and fences
// whoever owns the lane.
func (s *Sink) Reset(ctx context.Context, r framework.Reset) error {
	err := s.call(ctx, func(ctx context.Context) error {
		err := s.writers.transaction(ctx, func(w *writer) error { return reset(ctx, w, r) })
		var ce *commitError
		if errors.As(err, &ce) {
			return fmt.Errorf("%w: %w", framework.ErrUnknown, ce)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("sql: pipeline %q: reset of %s: %w", r.Pipeline, r.TopicPartition, err)
	}
	return nil
}

func reset(ctx context.Context, w *writer, r framework.Reset) error {
	n, err := w.exec(ctx, resetLane, r.To.Offset, r.To.LeaderEpoch, r.To.TopicID[:], r.Pipeline, r.Topic, r.Partition,
		r.From.Offset, r.From.LeaderEpoch, r.From.TopicID[:])
	if err != nil {
		return err
	}
	if n != 1 {
		return whyNotReset(ctx, w, r)
	}
	if r.DropState {
		_, err = w.exec(ctx, dropLaneState, r.Pipeline, r.Topic, r.Partition)
	}
	return err
}

func whyNotReset(ctx context.Context, w *writer, r framework.Reset) error {
	var stored offsetstore.Position
	var id []byte
	err := w.scan(ctx, readPosition, []any{r.Pipeline, r.Topic, r.Partition}, &stored.Offset, &stored.LeaderEpoch, &id)
	if errors.Is(err, stdsql.ErrNoRows) {
		return fmt.Errorf("%w: no position is stored", framework.ErrRefused)
	}
	if err == nil {
		stored.TopicID, err = topicID(id)
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: stored is %v, not %v", framework.ErrRefused, stored, r.From)
}
