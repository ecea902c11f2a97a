package sql

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// One statement makes the row or takes it over, so no two claims can interleave.
const claimLane = `
	INSERT INTO lockstep_lane (pipeline, topic, partition, claim, owner, saves, next_offset, leader_epoch, topic_id)
	VALUES (?, ?, ?, ?, ?, 0, ?, ?, ?)
	ON CONFLICT (pipeline, topic, partition) DO UPDATE SET claim = excluded.claim, owner = excluded.owner
	RETURNING id, saves, next_offset, leader_epoch, topic_id, lane_data`

// claim is the ownership of one lane. Its token is in the lane's row for as long
// as it is good.
type claim struct {
	sink     *Sink
	pipeline string
	tp       offsetstore.TopicPartition
	id       int64  // of the lane's row
	token    string // random, so that no other claim was or will be mistaken for this
	progress framework.Progress
	saves    int64 // the save number in the row, as of the last save of this claim
}

// Claim makes the caller the only owner of tp, by putting a new token in its row.
func (s *Sink) Claim(ctx context.Context, pipeline string, tp offsetstore.TopicPartition, start offsetstore.Position) (framework.Claim[Write], error) {
	c := &claim{sink: s, pipeline: pipeline, tp: tp, token: rand.Text()}
	err := s.call(ctx, func(ctx context.Context) error {
		take := func(w *writer) error { return c.take(ctx, w, start) }
		err := s.writers.transaction(ctx, take)
		if err != nil && s.dialect.evict(ctx, s.pools.read, pipeline, tp, err) {
			return s.writers.transaction(ctx, take)
		}
		return err
	})
	if err != nil {
		return nil, c.wrap("claim", err)
	}
	return c, nil
}

func (c *claim) take(ctx context.Context, w *writer, start offsetstore.Position) error {
	args := []any{c.pipeline, c.tp.Topic, c.tp.Partition, c.token, c.sink.config.Owner, start.Offset, start.LeaderEpoch, start.TopicID[:]}
	p := &c.progress
	var id []byte
	err := w.scan(ctx, claimLane, args, &c.id, &c.saves, &p.Position.Offset, &p.Position.LeaderEpoch, &id, &p.Lane)
	if err != nil {
		return err
	}
	p.Position.TopicID, err = topicID(id)
	return err
}

// Progress returns what was saved last, as of the claim.
func (c *claim) Progress() framework.Progress {
	p := c.progress
	p.Lane = bytes.Clone(p.Lane)
	return p
}

// Release gives the ownership up, unless another owner has it by now.
func (c *claim) Release(ctx context.Context) error {
	err := c.sink.call(ctx, func(ctx context.Context) error {
		return c.sink.writers.transaction(ctx, func(w *writer) error {
			_, err := w.exec(ctx, `UPDATE lockstep_lane SET claim = '', owner = '' WHERE id = ? AND claim = ?`, c.id, c.token)
			return err
		})
	})
	if err != nil {
		return c.wrap("release", err)
	}
	return nil
}

func (c *claim) wrap(what string, err error) error {
	return fmt.Errorf("sql: pipeline %q: %s of %s: %w", c.pipeline, what, c.tp, err)
}
