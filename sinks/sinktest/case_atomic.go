package sinktest

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

func atomicCases[W any]() []testCase[W] {
	return []testCase[W]{{
		name:  "atomic_cancel",
		rule:  "a save that is cancelled leaves all of its batch behind or nothing, and its error says which, as far as it is known",
		needs: need{exactlyOnce: true},
		run: func(e *env[W]) {
			e.sweepCancel(func(ctx context.Context, round int32) {
				e.interruptSave(ctx, e.open(), e.lane(round))
			})
		},
	}, {
		name:  "atomic_close",
		rule:  "a save during which the sink is closed leaves all of its batch behind or nothing, and its error says which, as far as it is known",
		needs: need{exactlyOnce: true},
		run: func(e *env[W]) {
			e.sweepClose(func(ctx context.Context, s framework.Sink[W], round int32) {
				e.interruptSave(ctx, s, e.lane(round))
			})
		},
	}, {
		name:  "atomic_refused",
		rule:  "a batch with a write that the storage refuses leaves nothing behind: a definite refusal, with the claim good",
		needs: need{exactlyOnce: true, refused: true},
		run:   atomicRefused[W],
	}, {
		name:  "atomic_too_large",
		rule:  "a batch that is too large leaves nothing behind: ErrTooLarge, not saved, with the claim good",
		needs: need{exactlyOnce: true, maxBatch: true},
		run:   atomicTooLarge[W],
	}, {
		name: "claim_interrupted",
		rule: "a Claim that is cut short leaves the ownership as it was or with nobody; claiming again is always allowed",
		run:  claimInterrupted[W],
	}}
}

// interruptSave takes a first step undisturbed, a second with ctx, and checks
// that what is stored is the one or the other, as the answer said. Something
// happens to ctx or to s during the second.
func (e *env[W]) interruptSave(ctx context.Context, s framework.Sink[W], l lane) {
	e.r.Helper()
	c := e.claimOn(s, l, offsetstore.At(0))
	e.steps(c, l, 1, 1)
	err := c.Save(ctx, e.stepBatch(l, 2))
	outcome, spent := e.outcomeOf(err)
	if outcome == framework.NotSaved {
		// Seen now: a second save would cover it up.
		e.wantRows(map[string]string{e.stepRow(l, 0): "1", e.stepRow(l, 2): ""})
	}
	if outcome == framework.NotSaved && !spent {
		// The claim is said to be good, so it is: unless s was closed.
		again := c.Save(e.ctx, e.stepBatch(l, 2))
		if again != nil && !errors.Is(again, framework.ErrClosed) {
			e.fatalf("Save returned %v with the claim good, but then %v", err, again)
		}
		outcome, _ = e.outcomeOf(again)
	}
	e.wantOutcome(l, 1, outcome)
}

// outcomeOf says what the answer of a save promises.
func (e *env[W]) outcomeOf(err error) (outcome framework.Outcome, spent bool) {
	e.r.Helper()
	if err == nil {
		return framework.Saved, false
	}
	se := e.wantSaveError(err)
	return se.Outcome, se.ClaimSpent
}

// wantOutcome restarts l and checks that the save after step before took effect
// or not, as the outcome says, and whole.
func (e *env[W]) wantOutcome(l lane, before int64, outcome framework.Outcome) {
	e.r.Helper()
	c := e.claim(l)
	at := c.Progress().Position.Offset
	switch {
	case at != before && at != before+1:
		e.fatalf("the position is %d, want %d or %d", at, before, before+1)
	case outcome == framework.Saved && at != before+1:
		e.fatalf("the batch is said to be saved, but the position is %d", at)
	case outcome == framework.NotSaved && at != before:
		e.fatalf("the batch is said not to be saved, but the position is %d", at)
	}
	e.wantStepsOf(c, l, at)
	e.steps(c, l, at+1, at+1)
	e.wantSteps(l, at+1)
}

func atomicRefused[W any](e *env[W]) {
	l := e.lane(0)
	c := e.claim(l)
	e.steps(c, l, 1, 1)
	for _, place := range []string{"first", "last"} {
		bad := e.h.Refused(e.key("refused"))
		if _, err := e.open().Check(bad); err != nil {
			e.fatalf("Harness.Refused returned a write that Check refuses already: %v", err)
		}
		b := e.stepBatch(l, 2)
		if place == "first" {
			b.Writes = append([]W{bad}, b.Writes...)
		} else {
			b.Writes = append(b.Writes, bad)
		}
		e.wantRefused(c.Save(e.ctx, b), framework.ErrRefused)
	}
	e.steps(c, l, 2, 2) // the claim is good
	e.wantSteps(l, 2)

	b := e.stepBatch(l, 3)
	b.Writes = append(b.Writes, e.h.Refused(e.key("refused")))
	e.wantRefused(e.claim(l).Save(e.ctx, b), framework.ErrRefused)
	e.wantSteps(l, 2)
}

func atomicTooLarge[W any](e *env[W]) {
	l := e.lane(0)
	c := e.claim(l)
	e.steps(c, l, 1, 1)
	b := e.stepBatch(l, 2)
	const valueBytes = 24 << 10
	for size := 0; size < e.h.MaxBatch; size += valueBytes {
		random := make([]byte, valueBytes)
		_, _ = rand.Read(random) // never fails
		b.Writes = append(b.Writes, e.h.Write(e.key("large-%d", size), base64.StdEncoding.EncodeToString(random)))
	}
	e.wantRefused(c.Save(e.ctx, b), framework.ErrTooLarge)
	e.steps(c, l, 2, 2) // the claim is good
	e.wantSteps(l, 2)
}

func claimInterrupted[W any](e *env[W]) {
	s := e.open()
	e.sweepCancel(func(ctx context.Context, round int32) {
		l := e.lane(round)
		e.steps(e.claim(l), l, 1, 1)
		if c, err := s.Claim(ctx, l.pipeline, l.tp, offsetstore.At(0)); err == nil {
			e.wantStepsOf(c, l, 1)
		}
		c := e.wantSteps(l, 1)
		e.steps(c, l, 2, 2)

		fresh := e.lane(1000 + round) // nothing is stored yet
		_, err := s.Claim(ctx, fresh.pipeline, fresh.tp, offsetstore.At(5))
		at := e.claimOn(s, fresh, offsetstore.At(9)).Progress().Position.Offset
		if at != 5 && (at != 9 || err == nil) {
			e.fatalf("Claim with start 5 returned %v, the next one with start 9 continues at %d", err, at)
		}
	})
}
