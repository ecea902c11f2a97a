package cassandra

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// claim is the ownership of one lane. It implements framework.Claim.
//
// Save and Release never overlap each other (the framework's promise), so seq,
// position and highTS are theirs alone. mu guards what other goroutines see.
type claim struct {
	*engine
	lane     laneKey
	token    gocql.UUID
	links    int64 // how many connections had ended when it was begun
	gen      int64
	progress framework.Progress // as of the claim

	seq      int64 // number of the last save that was committed
	used     int64 // highest number ever used under this claim
	position offsetstore.Position
	highTS   int64

	settler *settler

	mu       sync.Mutex
	spent    error // why the claim must not be used any more
	released bool
}

// errDuel: another process won the race for this claim.
var errDuel = errors.New("another process claims at the same time")

// claimLane makes this process the owner of lane. See PROTOCOL.md, "Claim".
func (e *engine) claimLane(ctx context.Context, lane laneKey, start offsetstore.Position) (*claim, error) {
	delays := e.clock.backoff(e.tuning.duelFirst, e.tuning.duelMost)
	for try := 1; ; try++ {
		c, err := e.tryClaim(ctx, lane, start)
		if !errors.Is(err, errDuel) {
			return c, err
		}
		if try == e.tuning.duelTries {
			return nil, fmt.Errorf("%w: %w (%d tries); two owners of one partition point at two groups that run the same pipeline",
				framework.ErrFenced, err, try)
		}
		if cause := e.clock.sleep(ctx, delays.NextBackOff()); cause != nil {
			return nil, cause
		}
	}
}

// tryClaim is one attempt, under a token of its own. It returns errDuel when
// another process was faster.
func (e *engine) tryClaim(ctx context.Context, lane laneKey, start offsetstore.Position) (*claim, error) {
	if err := e.claiming.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	defer e.claiming.Release(1)
	if err := e.verifyTables(ctx); err != nil {
		return nil, err
	}
	links := e.links.count()
	// Who owns it now? At SERIAL, so that a claim that is just being decided is
	// either seen or will fail ours.
	old, err := e.readLedger(ctx, lane)
	if err != nil {
		return nil, err
	}
	// A token is never used twice, not even by this process: after a lost answer
	// it tells which attempt came through.
	token, err := e.token()
	if err != nil {
		return nil, fmt.Errorf("make a claim token: %w", err)
	}
	st := createStatement(lane, token, e.owner, start)
	if old != nil {
		if err := old.check(lane); err != nil {
			return nil, err
		}
		if err := e.checkClock(ctx, old.highTS); err != nil {
			return nil, err
		}
		st = claimStatement(lane, old, token, e.owner)
	}
	row, lease, err := e.takeOver(ctx, st, token, old, links)
	if err != nil {
		return nil, err
	}
	if err := row.check(lane); err != nil {
		return nil, err
	}
	c := &claim{
		engine: e, lane: lane, token: token, links: links, gen: row.gen, progress: row.progress(),
		seq: row.seq, used: row.seq, position: row.position, highTS: row.highTS,
	}
	c.settler = newSettler(c)
	// Nothing is returned before the former owner's last save is complete: the state
	// that is loaded next, and the outputs that are read, must include it.
	if err := c.finish(ctx, row, lease); errors.Is(err, errMoved) {
		return nil, errDuel
	} else if err != nil {
		return nil, err
	}
	if old != nil {
		c.settler.discard(sweepKeys(lane, row, old.claim)...)
	}
	return c, nil
}

// takeOver sends st until the row shows whose claim came first. Its answer is
// never believed: the row is. It returns the row, and the lease that reading it
// as ours gives.
func (e *engine) takeOver(ctx context.Context, st conditional, token gocql.UUID, old *ledgerRow, links int64) (*ledgerRow, lease, error) {
	delays := e.clock.backoff(e.tuning.retryFirst, e.tuning.retryMost)
	for limit := e.unknownLimit(); ; {
		// "Not applied" may be the answer to our own first attempt that had come
		// through, and an error says nothing at all.
		if _, err := e.store.execute(ctx, st); refusedForGood(err) {
			return nil, lease{}, storeError(err)
		}
		sent := e.clock.now()
		row, err := e.readLedger(ctx, st.lane)
		switch {
		case err != nil:
			return nil, lease{}, err
		case row != nil && row.claim == token:
			return row, e.leaseFrom(sent, links), nil
		case row != nil && (old == nil || row.claim != old.claim):
			return nil, lease{}, errDuel
		case row == nil && old != nil:
			return nil, lease{}, fmt.Errorf("%w: the ledger row has disappeared during the claim", framework.ErrCorrupt)
		}
		// Not yet: our statement may still arrive. Sending the same one again is safe.
		if limit.left() <= 0 {
			return nil, lease{}, fmt.Errorf("%w: Cassandra does not decide the claim within %v",
				framework.ErrUnavailable, e.tuning.unknownLimit)
		}
		if cause := e.clock.sleep(ctx, delays.NextBackOff()); cause != nil {
			return nil, lease{}, cause
		}
	}
}

// readLedger reads the row, again after temporary errors.
func (e *engine) readLedger(ctx context.Context, lane laneKey) (*ledgerRow, error) {
	var row *ledgerRow
	err := e.retry(ctx, func() (err error) {
		row, err = e.store.readLedger(ctx, lane)
		return err
	})
	return row, err
}

// leaseFrom is the lease that a statement sent at that time gives, when so many
// links had ended before it.
func (e *engine) leaseFrom(sent time.Time, links int64) lease {
	trust := func() error { return e.links.trust(links) }
	return lease{clock: e.clock, start: sent, limit: e.tuning.applyLease, trust: trust}
}

// finish applies the save that an earlier owner had committed, since it may have
// stopped halfway, and marks it as applied.
func (c *claim) finish(ctx context.Context, row *ledgerRow, l lease) error {
	var staged *stageKey
	if row.chunks > 0 {
		key := row.stageKey(c.lane)
		staged = &key
	}
	if row.pending() {
		if err := c.redo(ctx, c.lane, row, c.tables, l); err != nil {
			return err
		}
		marked, err := c.store.execute(ctx, markStatement(c.lane, c.token, row.seq))
		if err != nil || !marked {
			// The settler tries again later, unless a save comes first.
			c.settler.saved(row.seq, staged)
			return nil
		}
	}
	// Marked, now or by the former owner: nobody will read the content any more.
	if staged != nil {
		c.settler.discard(*staged)
	}
	return nil
}

// sweepKeys are the stage rows that nothing can refer to any more once former no
// longer owns lane: of attempts that it began and can no longer commit, and of
// saves before the last one that it had no time to remove.
func sweepKeys(lane laneKey, row *ledgerRow, former gocql.UUID) []stageKey {
	var keys []stageKey
	for n := int64(1); n <= sweepDepth; n++ {
		keys = append(keys, stageKey{lane, former, row.seq + n})
		if row.seq > n {
			keys = append(keys, stageKey{lane, row.saveClaim, row.seq - n})
		}
	}
	return keys
}

// sweepDepth is how many save numbers around the last one a claim cleans up.
const sweepDepth = 4

// Progress implements [framework.Claim].
func (c *claim) Progress() framework.Progress {
	return framework.Progress{Position: c.progress.Position, Lane: bytes.Clone(c.progress.Lane)}
}

// spend records why the claim must not be used any more.
func (c *claim) spend(err error) {
	c.mu.Lock()
	if c.spent == nil {
		c.spent = err
	}
	c.mu.Unlock()
	c.settler.stop()
}

// usable returns why the claim must not be used, or nil.
func (c *claim) usable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released {
		return fmt.Errorf("%w: the claim was released", framework.ErrClosed)
	}
	if c.spent != nil {
		return fmt.Errorf("the claim was spent before: %w", c.spent)
	}
	return nil
}

// trusted returns nil while what this claim knows of the database can be relied on;
// otherwise the claim is spent.
func (c *claim) trusted() error {
	err := c.engine.links.trust(c.links)
	if err != nil {
		c.spend(err)
	}
	return err
}
