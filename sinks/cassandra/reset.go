package cassandra

import (
	"context"
	"fmt"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Reset implements [framework.Resetter]. The lane's state, when it is dropped, is
// no longer found by anyone; its rows stay in the database until an operator
// removes them.
func (s *Sink) Reset(ctx context.Context, r framework.Reset) error {
	ctx, end, err := s.ready(ctx)
	if err != nil {
		return err
	}
	defer end()
	lane := laneKey{pipeline: r.Pipeline, topic: r.Topic, partition: r.Partition}
	if err := lane.validate(); err != nil {
		return err
	}
	if r.To.Offset < 0 {
		return fmt.Errorf("%s: reset: %w: the offset %d is negative", lane, framework.ErrConfig, r.To.Offset)
	}
	if err := s.resetLane(ctx, lane, r); err != nil {
		return fmt.Errorf("%s: reset: %w", lane, err)
	}
	return nil
}

// resetLane is Reset. See PROTOCOL.md, "Reset".
func (e *engine) resetLane(ctx context.Context, lane laneKey, r framework.Reset) error {
	if err := e.verifyTables(ctx); err != nil {
		return err
	}
	return e.whileMoved(ctx, func() error { return e.tryReset(ctx, lane, r) })
}

// tryReset is one attempt, under a token of its own. It returns errMoved when the
// row changed meanwhile and the attempt certainly has no effect.
func (e *engine) tryReset(ctx context.Context, lane laneKey, r framework.Reset) error {
	// First, since the row will no longer tell of the save.
	row, err := e.rollForward(ctx, lane, remade{e.tables})
	if err != nil {
		return err
	}
	if row.position != r.From {
		return fmt.Errorf("%w: the stored position is %s, not %s",
			framework.ErrRefused, describePosition(row.position), describePosition(r.From))
	}
	token, err := e.token()
	if err != nil {
		return fmt.Errorf("make a claim token: %w", err)
	}
	if err := e.decideReset(ctx, resetStatement(lane, row, token, r), row, token); err != nil {
		return err
	}
	e.removeStage(ctx, append(sweepKeys(lane, row, row.claim), row.stageKey(lane)))
	return nil
}

// decideReset sends st until it is known whether it took effect.
func (e *engine) decideReset(ctx context.Context, st conditional, old *ledgerRow, token gocql.UUID) error {
	delays := e.clock.backoff(e.tuning.retryFirst, e.tuning.retryMost)
	applied, err := e.store.execute(ctx, st)
	if refusedForGood(err) {
		return storeError(err)
	}
	// refused: our only attempt was answered, with "not applied".
	refused, last := err == nil, err
	for limit := e.unknownLimit(); !applied; {
		row, err := e.readLedger(ctx, st.lane)
		if err != nil {
			return unlessRefused(refused, err)
		}
		if done, err := judgeReset(st.lane, row, old, token, refused); done || err != nil {
			return err
		}
		if limit.left() <= 0 {
			return fmt.Errorf("%w: %w", framework.ErrUnknown, orNone(last))
		}
		if cause := e.clock.sleep(ctx, delays.NextBackOff()); cause != nil {
			return fmt.Errorf("%w: %w (%w)", framework.ErrUnknown, cause, orNone(last))
		}
		// Not yet: our statement may still arrive. Sending the same one again is safe.
		refused = false
		if applied, err = e.store.execute(ctx, st); err != nil {
			last = err
		}
	}
	return nil
}

// unlessRefused makes an unknown outcome of err, except where the statement is
// known to have no effect.
func unlessRefused(refused bool, err error) error {
	if refused {
		return err
	}
	return fmt.Errorf("%w: %w", framework.ErrUnknown, err)
}

// judgeReset tells what row, read at SERIAL, says of a reset of old under token:
// done, not yet (false and no error), or why it is neither.
func judgeReset(lane laneKey, row, old *ledgerRow, token gocql.UUID, refused bool) (done bool, err error) {
	if row == nil {
		return false, fmt.Errorf("%w: the ledger row has disappeared", framework.ErrCorrupt)
	}
	if err := row.check(lane); err != nil {
		return false, err
	}
	switch {
	case row.saveClaim == token: // even if someone has claimed the lane since
		return true, nil
	case row.claim == old.claim && row.seq == old.seq:
		return false, nil
	// The reset would have changed the claim and the number both, for good.
	case row.claim == old.claim, row.seq == old.seq, refused:
		return false, errMoved
	default:
		return false, fmt.Errorf("%w: the lane has been claimed and saved since", framework.ErrUnknown)
	}
}

// remade takes a table that was dropped and made again for the one that a stored
// save was written for: an operator who moves a position has decided that it is.
type remade struct{ resolver }

func (r remade) resolve(ctx context.Context, t *target, _ tableID) (*boundTarget, error) {
	return r.resolver.resolve(ctx, t, anyTable)
}

// removeStage removes stage rows that nothing can refer to any more, as well as it
// can.
func (e *engine) removeStage(ctx context.Context, keys []stageKey) {
	for _, k := range keys {
		if err := e.store.deleteChunks(ctx, k); err != nil {
			e.log.Debug("cassandra: removing stage rows failed", "lane", k.lane.String(), "save", k.seq, "error", err)
		}
	}
}

// describePosition writes a position with all that is compared.
func describePosition(p offsetstore.Position) string {
	text := fmt.Sprintf("offset %d", p.Offset)
	if p.LeaderEpoch != offsetstore.NoLeaderEpoch {
		text += fmt.Sprintf(" (leader epoch %d)", p.LeaderEpoch)
	}
	if p.TopicID != (offsetstore.TopicID{}) {
		text += fmt.Sprintf(" of topic %v", p.TopicID)
	}
	return text
}
