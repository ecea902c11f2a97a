package cassandra

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Flush makes the last save of a partition visible if its owner died between the
// commit and the end of that, so that the tables are complete although nobody has
// claimed the partition again. It claims nothing and is harmless to an owner that
// lives: what it writes and marks is what the owner does itself.
//
// When it returns nil, every save that was committed before the call is complete.
// Where nothing is stored for the partition the error wraps [framework.ErrRefused].
func (s *Sink) Flush(ctx context.Context, pipeline string, tp offsetstore.TopicPartition) error {
	ctx, end, err := s.ready(ctx)
	if err != nil {
		return err
	}
	defer end()
	lane := laneKey{pipeline: pipeline, topic: tp.Topic, partition: tp.Partition}
	if err := lane.validate(); err != nil {
		return err
	}
	if err := s.flushLane(ctx, lane); err != nil {
		return fmt.Errorf("%s: flush: %w", lane, err)
	}
	return nil
}

// flushLane is Flush. That the row changes meanwhile is no error: an owner lives,
// and replaces a save only when all of it is in the tables, or claims, and finishes
// the save first. The latter takes time, so what is left is looked at again.
func (e *engine) flushLane(ctx context.Context, lane laneKey) error {
	if err := e.verifyTables(ctx); err != nil {
		return err
	}
	return e.whileMoved(ctx, func() error {
		_, err := e.rollForward(ctx, lane, e.tables)
		return err
	})
}

// errMoved: somebody else changed the ledger row while we worked on what it said.
var errMoved = errors.New("the ledger row changes all the time")

// whileMoved calls f, again after errMoved.
func (e *engine) whileMoved(ctx context.Context, f func() error) error {
	delays := e.clock.backoff(e.tuning.retryFirst, e.tuning.retryMost)
	for limit := e.unknownLimit(); ; {
		err := f()
		if !errors.Is(err, errMoved) {
			return err
		}
		if limit.left() <= 0 {
			return fmt.Errorf("%w: %w", framework.ErrUnavailable, err)
		}
		if cause := e.clock.sleep(ctx, delays.NextBackOff()); cause != nil {
			return cause
		}
	}
}

// rollForward applies the last save of lane, without a claim, if it is not marked
// as applied, and marks it. It returns the row as it is then.
func (e *engine) rollForward(ctx context.Context, lane laneKey, tables resolver) (*ledgerRow, error) {
	sent, links := e.clock.now(), e.links.count()
	row, err := e.readLedger(ctx, lane)
	if err != nil {
		return nil, err
	}
	if row == nil {
		return nil, fmt.Errorf("%w: no position is stored", framework.ErrRefused)
	}
	if err := row.check(lane); err != nil {
		return nil, err
	}
	if !row.pending() {
		return row, nil
	}
	if err := e.redo(ctx, lane, row, tables, e.leaseFrom(sent, links)); err != nil {
		return nil, err
	}
	if e.links.trust(links) != nil {
		return nil, errMoved // what was written may be gone
	}
	// The mark names the owner and the save that were read: a later save has marked
	// this one, and a later owner marks it itself.
	marked, err := e.store.execute(ctx, markStatement(lane, row.claim, row.seq))
	switch {
	case refusedForGood(err):
		return nil, storeError(err)
	case err != nil || !marked:
		return nil, errMoved // or unanswered: the row tells
	}
	row.applied = row.seq
	return row, nil
}

// redo applies the save that row shows as pending, whoever committed it. Where its
// content is gone because the row has moved on, it returns errMoved.
func (e *engine) redo(ctx context.Context, lane laneKey, row *ledgerRow, tables resolver, l lease) error {
	ms, err := e.committed(ctx, lane, row, tables)
	if err != nil {
		return e.blobFault(ctx, lane, row, err)
	}
	if err := e.apply(ctx, ms, l); err != nil {
		return fmt.Errorf("finish save %d of an earlier owner: %w", row.seq, err)
	}
	e.counters.rollForwards.Add(1)
	return nil
}

// committed reads and decodes the last save of row.
func (e *engine) committed(ctx context.Context, lane laneKey, row *ledgerRow, tables resolver) ([]mutation, error) {
	chunks := [][]byte{row.body}
	if row.chunks > 0 {
		var err error
		if chunks, err = e.readStage(ctx, row.stageKey(lane), row.chunks); err != nil {
			return nil, err
		}
	}
	return decodeBlob(ctx, chunks, row.contentSum(), tables)
}

// blobFault decides what a missing or damaged blob means. If the row has changed,
// whoever changed it may have applied and removed it; if not, it is damage.
func (e *engine) blobFault(ctx context.Context, lane laneKey, row *ledgerRow, fault error) error {
	if !errors.Is(fault, framework.ErrCorrupt) {
		return fault
	}
	now, err := e.readLedger(ctx, lane)
	if err != nil {
		return err
	}
	if now != nil && (now.claim != row.claim || now.seq != row.seq || now.applied != row.applied) {
		return errMoved
	}
	return fmt.Errorf("save %d is committed, up to offset %d, but its content cannot be read: %w",
		row.seq, row.position.Offset, fault)
}
