package cassandra

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
)

// laneDataBytes bounds the lane's own data, which travels in the ledger row.
const laneDataBytes = 8 << 10

// save is one attempt to save one batch. Once its statement was sent, nothing in
// it changes any more.
type save struct {
	seq       int64 // its number, never used before under this claim
	from, to  framework.Progress
	writes    []Write // of the batch, its state and its dead letters
	base      int64   // timestamp of the first write, microseconds
	blob      blob
	mutations []mutation
	staged    bool   // the blob is in stage rows
	sum       []byte // the ledger's checksum
	statement conditional
}

// stageKey is where its chunks go.
func (s *save) stageKey(c *claim) stageKey { return stageKey{c.lane, c.token, s.seq} }

// high returns the highest timestamp the lane has used, with s counted in.
func (s *save) high() int64 { return s.base + int64(len(s.writes)) - 1 }

// Save implements [framework.Claim]: prepare, stage, commit, apply. See
// PROTOCOL.md, "Save".
func (c *claim) Save(ctx context.Context, b *framework.Batch[Write]) error {
	ctx, end, err := c.begin(ctx)
	if err != nil {
		return c.failed(b, framework.NotSaved, true, err)
	}
	defer end()
	if err := c.usable(); err != nil {
		return c.failed(b, framework.NotSaved, true, err)
	}

	// Until the commit is sent, whatever goes wrong leaves no trace that counts.
	s, err := c.prepare(ctx, b)
	if err != nil {
		if errors.Is(err, framework.ErrCorrupt) {
			c.spend(err)
			return c.failed(b, framework.NotSaved, true, err)
		}
		return c.failed(b, framework.NotSaved, false, err)
	}
	if err := c.stage(ctx, s); err != nil {
		return c.failed(b, framework.NotSaved, false, err)
	}
	if ctx.Err() != nil {
		c.abandon(s)
		return c.failed(b, framework.NotSaved, false, context.Cause(ctx))
	}

	// From here on the batch may become durable at any moment, even after a cancel.
	// So a cancel only shortens the search for the truth: to a grace.
	work, done := c.grace(ctx)
	defer done()
	s.statement = c.commitStatement(s)
	lease, v := c.commit(work, s)
	if v != nil {
		if v.spent {
			// Stage rows stay: the commit may refer to them yet.
			c.spend(v.err)
		} else {
			c.abandon(s)
		}
		return c.failed(b, v.outcome, v.spent, v.err)
	}
	// Nil promises that all of it can be read, and the next save may only replace
	// this one in the ledger when nothing of it is missing from the tables.
	if err := c.apply(work, s.mutations, lease); err != nil {
		err = fmt.Errorf("%w: %w", framework.ErrNotApplied, err)
		c.spend(err)
		return c.failed(b, framework.Saved, true, err)
	}
	c.advance(s)
	return nil
}

// prepare checks and encodes b, and gives it its number and timestamps. Nothing of
// it is sent: whatever the database would refuse after the commit must be found here.
func (c *claim) prepare(ctx context.Context, b *framework.Batch[Write]) (*save, error) {
	if err := c.checkBatch(b); err != nil {
		return nil, err
	}
	if err := c.checkClock(ctx, c.highTS); err != nil {
		return nil, err
	}
	if err := c.verifyTables(ctx); err != nil {
		return nil, err
	}
	writes, err := c.batchWrites(b)
	if err != nil {
		return nil, err
	}
	// Above everything the lane has ever written, even by owners with other clocks:
	// then a late write of theirs loses against ours, and never the reverse.
	s := &save{from: b.From, to: b.To, writes: writes, base: max(c.clock.micros(), c.highTS+1)}
	if s.blob, s.mutations, err = encodeBlob(writes, s.base, c.tables, c.blobLimits()); err != nil {
		return nil, err
	}
	s.seq = c.nextSeq()
	return s, nil
}

// nextSeq returns a save number that was never used under this claim. A number is
// not used again even for a batch that certainly failed: its chunks may be there.
func (c *claim) nextSeq() int64 {
	c.used++
	return c.used
}

// checkBatch refuses a batch that does not continue where the lane is.
func (c *claim) checkBatch(b *framework.Batch[Write]) error {
	at, from, to := c.position.Offset, b.From.Position.Offset, b.To.Position.Offset
	switch {
	case from != at:
		// No record is to blame: the caller's idea of the lane is not what is stored.
		return fmt.Errorf("%w: the batch continues from offset %d, stored is %d", framework.ErrCorrupt, from, at)
	case to < from && len(b.Writes)+len(b.State)+len(b.DeadLetters) > 0:
		// Only a save that does nothing else may set the position back.
		return fmt.Errorf("%w: it goes back from offset %d to %d", framework.ErrRefused, from, to)
	case len(b.To.Lane) > laneDataBytes:
		return fmt.Errorf("%w: the lane's own data has %d bytes, at most %d are possible",
			framework.ErrTooLarge, len(b.To.Lane), laneDataBytes)
	}
	return nil
}

// batchWrites returns everything of b as writes, in the order of their timestamps.
func (c *claim) batchWrites(b *framework.Batch[Write]) ([]Write, error) {
	for i := range b.Writes {
		if err := checkWrite(&b.Writes[i], c.tuning.writeBytes); err != nil {
			return nil, fmt.Errorf("write %d of the batch: %w", i, err)
		}
	}
	if len(b.State) == 0 && len(b.DeadLetters) == 0 {
		return b.Writes, nil
	}
	ws := make([]Write, 0, len(b.Writes)+len(b.State)+len(b.DeadLetters))
	ws = append(ws, b.Writes...)
	for i := range b.State {
		ws = append(ws, c.stateWrite(&b.State[i]))
	}
	for i := range b.DeadLetters {
		ws = append(ws, c.deadWrite(&b.DeadLetters[i]))
	}
	for i := len(b.Writes); i < len(ws); i++ {
		if err := checkWrite(&ws[i], c.tuning.ownBytes); err != nil {
			return nil, err
		}
	}
	return ws, nil
}

// checkWrite is Write.check with the kind of error that Save returns.
func checkWrite(w *Write, limit int) error {
	err := w.check(limit)
	switch {
	case err == nil:
		return nil
	case w.err == nil && w.size() > limit:
		return fmt.Errorf("%w: %w", framework.ErrTooLarge, err)
	default:
		return fmt.Errorf("%w: %w", framework.ErrRefused, err)
	}
}

// commitStatement is the statement that is the whole commit: with it the batch
// and its position are durable as one, or not at all.
func (c *claim) commitStatement(s *save) conditional {
	row := ledgerRow{
		seq: s.seq, applied: c.seq, saveClaim: c.token, position: s.to.Position, lane: s.to.Lane,
		highTS: c.highTS, gen: c.gen, bytes: s.blob.bytes,
	}
	var more []setting
	// Columns that a form of the save does not need are left out: null would
	// cost a tombstone. What they still hold of an earlier save means nothing.
	switch {
	case len(s.writes) == 0:
		row.applied = s.seq // there is nothing to apply
	case s.staged:
		row.highTS, row.chunks = s.high(), len(s.blob.chunks)
		more = []setting{{colHighTS, row.highTS}}
	default:
		row.highTS = s.high()
		more = []setting{{colHighTS, row.highTS}, {colBody, s.blob.chunks[0]}}
	}
	s.sum = row.sealed(c.lane, s.blob.sum)
	return conditional{
		lane: c.lane,
		set: append([]setting{
			{colSeq, row.seq}, {colApplied, row.applied}, {colFormat, ledgerFormat},
			{colSaveClaim, row.saveClaim}, {colSavedAt, c.clock.now()},
			{colNextOffset, row.position.Offset}, {colLeaderEpoch, row.position.LeaderEpoch},
			{colTopicID, gocql.UUID(row.position.TopicID)}, {colLane, notNull(row.lane)},
			{colChunks, row.chunks}, {colBytes, row.bytes}, {colSum, s.sum},
		}, more...),
		// The number says that nothing was saved since, the position that nobody
		// moved it by hand; each alone has been fooled.
		when: append([]setting{{colClaim, c.token}, {colSeq, c.seq}}, positionIs(c.position)...),
	}
}

// commit sends the statement and finds out what became of it: it returns the lease
// on applying, or the verdict that the batch was not saved for us to apply.
func (c *claim) commit(ctx context.Context, s *save) (lease, *verdict) {
	// It also says that everything before is in the tables.
	if err := c.trusted(); err != nil {
		return lease{}, &verdict{outcome: framework.NotSaved, spent: true, err: err}
	}
	sent := c.clock.now()
	applied, err := c.store.execute(ctx, s.statement)
	switch {
	case err == nil && applied:
		return c.leaseFrom(sent, c.links), nil
	case refusedForGood(err):
		return lease{}, &verdict{outcome: framework.NotSaved, err: storeError(err)}
	}
	return c.resolve(ctx, s, err)
}

// advance makes s the lane's last save.
func (c *claim) advance(s *save) {
	c.seq, c.position = s.seq, s.to.Position
	if len(s.writes) == 0 {
		c.settler.settled()
		return
	}
	c.highTS = s.high()
	var staged *stageKey
	if s.staged {
		key := s.stageKey(c)
		staged = &key
	}
	c.settler.saved(s.seq, staged)
}

// abandon cleans up after a save that certainly never takes effect.
func (c *claim) abandon(s *save) {
	if s.staged {
		c.settler.discard(s.stageKey(c))
	}
}

// failed makes the error of a save. It names the lane and the batch. No claim of a
// closed sink is good.
func (c *claim) failed(b *framework.Batch[Write], o framework.Outcome, spent bool, err error) error {
	spent = spent || errors.Is(err, framework.ErrClosed)
	return &framework.SaveError{Outcome: o, ClaimSpent: spent, Err: fmt.Errorf("%s: offsets %d up to %d: %w",
		c.lane, b.From.Position.Offset, b.To.Position.Offset, err)}
}
