package sinktest

import (
	"errors"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// resetCases check the power to move a position.
func resetCases[W any]() []testCase[W] {
	return []testCase[W]{{
		name:  "reset_moves_the_position",
		rule:  "Reset replaces the stored position whole; rows, dead letters, state and the lane's own data stay",
		needs: need{power: resets},
		run:   withReset(resetMoves[W]),
	}, {
		name:  "reset_compares",
		rule:  "Reset changes nothing and wraps ErrRefused when anything else than From is stored, or nothing",
		needs: need{power: resets},
		run:   withReset(resetCompares[W]),
	}, {
		name:  "reset_fences",
		rule:  "Reset fences every claim made before: its next Save is refused with ErrFenced and outcome NotSaved",
		needs: need{power: resets},
		run:   withReset(resetFences[W]),
	}, {
		name:  "reset_drops_state",
		rule:  "Reset with DropState removes all state of the lane with the same step, and no other lane's",
		needs: need{state: true, power: resets},
		run:   withReset(resetDropsState[W]),
	}}
}

// withReset runs a case with a sink that has the power.
func withReset[W any](run func(*env[W], framework.Resetter)) func(*env[W]) {
	return func(e *env[W]) { run(e, e.open().(framework.Resetter)) }
}

// reset asks for a move of l, from what n steps have left.
func (e *env[W]) reset(r framework.Resetter, l lane, n int64, to offsetstore.Position, dropState bool) {
	e.r.Helper()
	err := r.Reset(e.ctx, framework.Reset{Pipeline: l.pipeline, TopicPartition: l.tp, From: stepProgress(n).Position, To: to, DropState: dropState})
	if err != nil {
		e.fatalf("Reset from %d to %d returned %v", n, to.Offset, err)
	}
}

func resetMoves[W any](e *env[W], r framework.Resetter) {
	l := e.lane(0)
	e.steps(e.claim(l), l, 1, 3)
	to := offsetstore.Position{Offset: 1, LeaderEpoch: 7, TopicID: offsetstore.TopicID{1, 2, 3}}
	e.reset(r, l, 3, to, false)
	c := e.claim(l)
	if got := c.Progress(); got.Position != to || string(got.Lane) != string(stepProgress(3).Lane) {
		e.fatalf("after a reset to %+v a claim finds %+v with lane data %q", to, got.Position, got.Lane)
	}
	e.wantRows(map[string]string{e.stepRow(l, 0): "3", e.stepRow(l, 3): "3"})
	if e.h.Guarantee.State {
		if v := e.load(c, stepState())[0]; string(v) != "3" {
			e.fatalf("after a reset without DropState the state holds %s, want \"3\"", shorten(string(v)))
		}
	}
	b := e.stepBatch(l, 2) // is done again, from the new position
	b.From = framework.Progress{Position: to, Lane: stepProgress(3).Lane}
	b.DeadLetters = nil
	e.save(c, b)
	e.wantRows(map[string]string{e.stepRow(l, 0): "2"})
}

func resetCompares[W any](e *env[W], r framework.Resetter) {
	l := e.lane(0)
	want := func(what string, reset framework.Reset) {
		e.r.Helper()
		reset.Pipeline, reset.TopicPartition, reset.To = l.pipeline, l.tp, offsetstore.At(1)
		if err := r.Reset(e.ctx, reset); !errors.Is(err, framework.ErrRefused) {
			e.fatalf("Reset of %s returned %v, want ErrRefused", what, err)
		}
	}
	want("what was never claimed", framework.Reset{From: offsetstore.At(0)})
	c := e.claim(l)
	e.steps(c, l, 1, 2)
	stored := stepProgress(2).Position
	other := stored
	other.Offset++
	want("another offset", framework.Reset{From: other, DropState: true})
	other = stored
	other.LeaderEpoch++
	want("another leader epoch", framework.Reset{From: other, DropState: true})
	other = stored
	other.TopicID[0]++
	want("another topic ID", framework.Reset{From: other, DropState: true})
	e.steps(c, l, 3, 3) // nobody was fenced
	e.wantSteps(l, 3)
}

func resetFences[W any](e *env[W], r framework.Resetter) {
	l := e.lane(0)
	former := e.claim(l)
	e.steps(former, l, 1, 2)
	e.reset(r, l, 2, stepProgress(2).Position, false) // to where it is: only the claim ends
	e.wantFenced(former.Save(e.ctx, e.stepBatch(l, 3)))
	e.wantSteps(l, 2)
}

func resetDropsState[W any](e *env[W], r framework.Resetter) {
	l, other := e.lane(0), e.lane(1)
	e.steps(e.claim(l), l, 1, 2)
	e.steps(e.claim(other), other, 1, 2)
	e.reset(r, l, 2, offsetstore.At(0), true)
	c := e.claim(l)
	if v := e.load(c, stepState())[0]; v != nil {
		e.fatalf("after a reset with DropState the state holds %s", shorten(string(v)))
	}
	e.wantSteps(other, 2)
	b := e.stepBatch(l, 1)
	b.From = framework.Progress{Position: offsetstore.At(0), Lane: stepProgress(2).Lane}
	b.DeadLetters = nil
	e.save(c, b)
	if v := e.load(e.claim(l), stepState())[0]; string(v) != "1" {
		e.fatalf("the first state after a reset is %s, want \"1\"", shorten(string(v)))
	}
}
