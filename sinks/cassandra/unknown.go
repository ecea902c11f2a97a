package cassandra

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/lockstep-stream/lockstep/framework"
)

// verdict is the end of a save that this owner cannot complete.
type verdict struct {
	outcome framework.Outcome
	spent   bool
	err     error
}

// resolve finds out what became of s after an answer that does not tell: an error
// (unanswered is not nil), or "not applied", which may have been the answer to a
// repetition of our own success. Only the ledger row, read at SERIAL, tells; and
// while it says "not yet" the statement may still arrive, so nothing but the
// identical statement may be sent.
func (c *claim) resolve(ctx context.Context, s *save, unanswered error) (lease, *verdict) {
	// refused: our only attempt was answered, with "not applied".
	refused, last := unanswered == nil, unanswered
	if refused {
		c.log.Info("cassandra: a save was not applied, reading the ledger for the reason", "lane", c.lane.String(), "save", s.seq)
	} else {
		c.counters.unknownOutcomes.Add(1)
		c.log.Info("cassandra: outcome of a save unknown, reading the ledger", "lane", c.lane.String(), "save", s.seq, "error", unanswered)
	}
	delays := c.clock.backoff(c.tuning.retryFirst, c.tuning.retryMost)
	for limit := c.unknownLimit(); limit.left() > 0; {
		if err := c.trusted(); err != nil {
			last = fmt.Errorf("%w (%w)", err, orNone(last))
			break
		}
		sent := c.clock.now()
		row, err := c.store.readLedger(ctx, c.lane)
		if err == nil {
			state, v := c.judge(row, s, refused)
			if v != nil {
				if errors.Is(v.err, framework.ErrFenced) {
					c.counters.fenced.Add(1)
				}
				return lease{}, v
			}
			if state == saved {
				return c.leaseFrom(sent, c.links), nil
			}
			// Not yet. From the second attempt on "not applied" proves nothing, and a
			// definite refusal says nothing of the attempts before it.
			refused, sent = false, c.clock.now()
			var applied bool
			if applied, err = c.store.execute(ctx, s.statement); applied {
				return c.leaseFrom(sent, c.links), nil
			}
		}
		if err != nil {
			last = err
		}
		if row == nil && refusedForGood(err) { // waiting does not mend it
			last = storeError(err)
			break
		}
		c.waiting(limit.start, "commit", last)
		if cause := c.clock.sleep(ctx, delays.NextBackOff()); cause != nil {
			last = fmt.Errorf("%w (%w)", cause, orNone(last))
			break
		}
	}
	return lease{}, &verdict{framework.Unknown, true, fmt.Errorf("%w: %w", framework.ErrUnknown, orNone(last))}
}

func orNone(err error) error {
	if err == nil {
		return fmt.Errorf("the statement was neither applied nor overtaken by another")
	}
	return err
}

// ledgerState is what a row says of a save while the claim is still ours.
type ledgerState uint8

const (
	notYet ledgerState = iota // it may still take effect
	saved
)

// judge is the table of PROTOCOL.md, "Unknown": what row, read at SERIAL after s
// was sent, says of s. A verdict is final.
func (c *claim) judge(row *ledgerRow, s *save, refused bool) (ledgerState, *verdict) {
	if row == nil {
		return 0, c.corrupt(refused, "the ledger row is gone")
	}
	// The sum is compared since the number alone is not proof: a row that was made
	// again by hand can have any number.
	ours := row.seq == s.seq && row.saveClaim == c.token && bytes.Equal(row.sum, s.sum)
	switch mine, before := row.claim == c.token, row.seq == c.seq; {
	case mine && ours:
		return saved, nil
	case mine && before && row.position == c.position:
		return notYet, nil
	case mine:
		return 0, c.corrupt(refused, fmt.Sprintf("expected save %d at %s, found save %d at %s",
			c.seq, describePosition(c.position), row.seq, describePosition(row.position)))
	// A generation of its own: the row was removed and made again, and its numbers
	// say nothing of ours.
	case before && row.gen == c.gen: // no save came after the one before ours, and ours never can
		return 0, c.fenced(framework.NotSaved, row, s)
	case ours:
		return 0, c.fenced(framework.Saved, row, s)
	case refused:
		return 0, c.fenced(framework.NotSaved, row, s)
	default:
		return 0, c.fenced(framework.Unknown, row, s)
	}
}

// corrupt is the verdict when the row changed while nobody but us could change it.
func (c *claim) corrupt(refused bool, what string) *verdict {
	o := framework.Unknown
	if refused {
		o = framework.NotSaved
	}
	return &verdict{o, true, fmt.Errorf("%w: %s although nobody else has claimed the partition: the ledger was changed from outside",
		framework.ErrCorrupt, what)}
}

func (c *claim) fenced(o framework.Outcome, row *ledgerRow, s *save) *verdict {
	return &verdict{o, true, fmt.Errorf("%w (owner %q, claim number %d; expected offset %d, found %d)",
		framework.ErrFenced, row.owner, row.epoch, s.from.Position.Offset, row.position.Offset)}
}
