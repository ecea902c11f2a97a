package sinktest

import (
	"errors"
	"sync"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

const fenceRule = "when Claim has returned, no save of an earlier owner can take effect any more: "

func fenceCases[W any]() []testCase[W] {
	needs := need{exactlyOnce: true}
	return []testCase[W]{{
		name:  "fence_before_first_save",
		rule:  fenceRule + "not one that had not begun",
		needs: needs,
		run: func(e *env[W]) {
			l := e.lane(0)
			former := e.claim(l)
			e.claim(l)
			e.wantFenced(former.Save(e.ctx, e.stepBatch(l, 1)))
			e.wantSteps(l, 0)
		},
	}, {
		name:  "fence_after_save",
		rule:  fenceRule + "not one that follows a good save of the same owner",
		needs: needs,
		run: func(e *env[W]) {
			l := e.lane(0)
			former := e.claim(l)
			e.steps(former, l, 1, 2)
			owner := e.wantSteps(l, 2)
			e.wantFenced(former.Save(e.ctx, e.stepBatch(l, 3)))
			e.wantRows(map[string]string{e.stepRow(l, 0): "2", e.stepRow(l, 3): ""})
			e.steps(owner, l, 3, 3)
			e.wantFenced(former.Save(e.ctx, e.stepBatch(l, 3)))
			e.wantSteps(l, 3)
		},
	}, {
		name:  "fence_during_save",
		rule:  fenceRule + "one that is in flight is complete before Claim returns, or refused",
		needs: needs,
		run:   fenceDuringSave[W],
	}, {
		name:  "fence_same_process",
		rule:  fenceRule + "also when both owners use one sink",
		needs: needs,
		run: func(e *env[W]) {
			l := e.lane(0)
			s := e.open()
			former := e.claimOn(s, l, offsetstore.At(0))
			owner := e.claimOn(s, l, offsetstore.At(0))
			e.wantFenced(former.Save(e.ctx, e.stepBatch(l, 1)))
			e.steps(owner, l, 1, 1)
			e.wantSteps(l, 1)
		},
	}, {
		name:  "fence_empty_batch",
		rule:  fenceRule + "not even one that only moves the position, or does not even do that",
		needs: needs,
		run: func(e *env[W]) {
			l := e.lane(0)
			former := e.claim(l)
			owner := e.claim(l)
			e.wantFenced(former.Save(e.ctx, moveBatch[W](0, 0)))
			e.wantFenced(former.Save(e.ctx, moveBatch[W](0, 5)))
			e.steps(owner, l, 1, 1)
			e.wantSteps(l, 1)
		},
	}, {
		name:  "fence_after_release",
		rule:  fenceRule + "nor after the later owner has released",
		needs: needs,
		run: func(e *env[W]) {
			l := e.lane(0)
			former := e.claim(l)
			owner := e.claim(l)
			e.release(owner)
			e.wantFenced(former.Save(e.ctx, e.stepBatch(l, 1)))
			e.wantSteps(l, 0)
		},
	}, {
		name: "release_by_former_owner",
		rule: "Release gives up the caller's own ownership; a former owner's disturbs nobody",
		run: func(e *env[W]) {
			l := e.lane(0)
			former := e.claim(l)
			owner := e.claim(l)
			e.steps(owner, l, 1, 1)
			_ = former.Release(e.ctx) // whatever it returns
			e.steps(owner, l, 2, 2)
			e.wantSteps(l, 2)
		},
	}, {
		name: "release_then_claim",
		rule: "after Release the partition can be claimed again, by anybody, and continues where it was",
		run: func(e *env[W]) {
			l := e.lane(0)
			s := e.open()
			for n := range int64(4) {
				c := e.claimOn(s, l, offsetstore.At(0))
				e.wantStepsOf(c, l, n)
				e.steps(c, l, n+1, n+1)
				e.release(c)
			}
			e.wantSteps(l, 4)
		},
	}, {
		name:  "fence_many_owners",
		rule:  "of many owners that take a partition from each other, every save that returned nil took effect once, and no other did",
		needs: needs,
		run:   fenceManyOwners[W],
	}}
}

// fenceDuringSave lets a save and another owner's claim race, and accepts each
// order in which they can have taken place.
func fenceDuringSave[W any](e *env[W]) {
	one, two := e.open(), e.open()
	for round := range int32(20) {
		l := e.lane(round)
		former := e.claimOn(one, l, offsetstore.At(0))
		e.steps(former, l, 1, 1)

		var saveErr, claimErr error
		var owner framework.Claim[W]
		var wg sync.WaitGroup
		wg.Go(func() { saveErr = former.Save(e.ctx, e.stepBatch(l, 2)) })
		wg.Go(func() { owner, claimErr = two.Claim(e.ctx, l.pipeline, l.tp, offsetstore.At(0)) })
		wg.Wait()
		if claimErr != nil {
			e.fatalf("Claim during a save of the former owner returned %v", claimErr)
		}
		at := owner.Progress().Position.Offset
		if at != 1 && at != 2 {
			e.fatalf("the new owner continues at %d, want 1 or 2", at)
		}
		if saveErr == nil && at != 2 {
			e.fatalf("the save returned nil, but the new owner continues at %d", at)
		}
		if saveErr != nil {
			se := e.wantSaveError(saveErr)
			if !errors.Is(saveErr, framework.ErrFenced) || !se.ClaimSpent {
				e.fatalf("the save returned %v, want nil or ErrFenced with the claim spent", saveErr)
			}
			if se.Outcome == framework.Saved && at != 2 || se.Outcome == framework.NotSaved && at != 1 {
				e.fatalf("the save returned %v, but the new owner continues at %d", saveErr, at)
			}
		}
		e.wantStepsOf(owner, l, at)
		e.steps(owner, l, at+1, at+1)
		e.wantSteps(l, at+1)
	}
}

// fenceManyOwners has several owners claim and save in turn as fast as they can,
// and compares the number of successes with the position.
func fenceManyOwners[W any](e *env[W]) {
	l := e.lane(0)
	const owners, rounds = 3, 4
	sinks := make([]framework.Sink[W], owners)
	for i := range sinks {
		sinks[i] = e.open()
	}
	var mu sync.Mutex
	var saved, unknown int64
	var wrong error
	var wg sync.WaitGroup
	for _, s := range sinks {
		wg.Go(func() {
			for range rounds {
				c, err := s.Claim(e.ctx, l.pipeline, l.tp, offsetstore.At(0))
				if err != nil {
					continue // taken from it in the middle; claiming again is allowed
				}
				err = c.Save(e.ctx, e.stepBatch(l, c.Progress().Position.Offset+1))
				mu.Lock()
				var se *framework.SaveError
				switch {
				case err == nil:
					saved++
				case !errors.As(err, &se) || !errors.Is(err, framework.ErrFenced):
					wrong = err
				case se.Outcome == framework.Saved:
					saved++
				case se.Outcome == framework.Unknown:
					unknown++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if wrong != nil {
		e.fatalf("a save returned %v, want nil or ErrFenced", wrong)
	}
	c := e.claim(l)
	at := c.Progress().Position.Offset
	if at < saved || at > saved+unknown {
		e.fatalf("%d saves took effect (%d more are unknown), but the position is %d", saved, unknown, at)
	}
	e.wantStepsOf(c, l, at)
}
