package sinktest

import (
	"errors"
	"strconv"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

func saveCases[W any]() []testCase[W] {
	return []testCase[W]{{
		name: "save_visible",
		rule: "when Save has returned nil, all of the batch is visible",
		run: func(e *env[W]) {
			c := e.claim(e.lane(0))
			for n := range int64(5) {
				e.save(c, e.stepBatch(e.lane(0), n+1))
				number := strconv.FormatInt(n+1, 10)
				e.wantRows(map[string]string{e.stepRow(e.lane(0), 0): number, e.stepRow(e.lane(0), n+1): number})
				if e.h.Guarantee.DeadLetters && int64(len(e.deadLetters(e.lane(0)))) != n+1 {
					e.fatalf("after %d saves there are %d dead letters", n+1, len(e.deadLetters(e.lane(0))))
				}
			}
		},
	}, {
		name: "save_survives_restart",
		rule: "what was saved is there after a restart, with or without Release and Close, and saving goes on from there",
		run:  saveSurvivesRestart[W],
	}, {
		name: "save_row_order",
		rule: "writes of one row take effect in their order, within a batch and from batch to batch",
		run:  saveRowOrder[W],
	}, {
		name:  "save_delete_order",
		rule:  "a write after a delete brings the row back, a delete after a write removes it, in one batch or in two",
		needs: need{delete: true},
		run:   saveDeleteOrder[W],
	}, {
		name: "save_position_only",
		rule: "a batch may be empty but for the position, and the position may jump over offsets that do not exist",
		run: func(e *env[W]) {
			c := e.claim(e.lane(0))
			at := int64(0)
			for _, to := range []int64{1, 2, 1000, 1 << 40} {
				e.save(c, moveBatch[W](at, to))
				at = to
			}
			e.wantStart(e.lane(0), offsetstore.At(0), offsetstore.At(at))
		},
	}, {
		name: "save_without_moving",
		rule: "To may equal From in everything but the lane's data",
		run:  saveWithoutMoving[W],
	}, {
		name: "save_big_batch",
		rule: "a batch as big as the framework makes them is saved whole",
		run:  saveBigBatch[W],
	}, {
		name:  "save_again_changes_nothing",
		rule:  "a batch that does not continue from the stored position is not saved, and the error wraps ErrCorrupt: a replay changes nothing, and no record is blamed",
		needs: need{exactlyOnce: true},
		run:   saveAgain[W],
	}, {
		name: "save_retains_nothing",
		rule: "nothing given to a call is retained after it has returned: the caller may reuse it",
		run:  saveRetainsNothing[W],
	}}
}

// moveBatch returns a batch of nothing but a new position.
func moveBatch[W any](from, to int64) *framework.Batch[W] {
	return &framework.Batch[W]{
		From: framework.Progress{Position: offsetstore.At(from)},
		To:   framework.Progress{Position: offsetstore.At(to)},
	}
}

func saveSurvivesRestart[W any](e *env[W]) {
	l := e.lane(0)
	s := e.open()
	c := e.claimOn(s, l, offsetstore.At(0))
	e.steps(c, l, 1, 2)
	e.release(c)
	if err := s.Close(e.ctx); err != nil {
		e.fatalf("Close returned %v", err)
	}
	c = e.wantSteps(l, 2)
	e.steps(c, l, 3, 3) // and neither Release nor Close, as after a crash
	c = e.wantSteps(l, 3)
	e.steps(c, l, 4, 4)
	e.wantSteps(l, 4)
}

func saveRowOrder[W any](e *env[W]) {
	c := e.claim(e.lane(0))
	key, other := e.key("row"), e.key("other")
	for n := range int64(3) {
		b := moveBatch[W](n, n+1)
		for i := range 50 {
			b.Writes = append(b.Writes, e.h.Write(key, strconv.Itoa(i)), e.h.Write(other, strconv.Itoa(-i)))
		}
		b.Writes = append(b.Writes, e.h.Write(key, "last of "+strconv.FormatInt(n, 10)))
		e.save(c, b)
		e.wantRows(map[string]string{key: "last of " + strconv.FormatInt(n, 10), other: "-49"})
	}
}

func saveDeleteOrder[W any](e *env[W]) {
	c := e.claim(e.lane(0))
	back, gone := e.key("back"), e.key("gone")
	b := moveBatch[W](0, 1)
	b.Writes = []W{
		e.h.Write(back, "1"), e.h.Delete(back), e.h.Write(back, "2"),
		e.h.Write(gone, "1"), e.h.Delete(gone),
	}
	e.save(c, b)
	e.wantRows(map[string]string{back: "2", gone: ""})

	b = moveBatch[W](1, 2)
	b.Writes = []W{e.h.Delete(back), e.h.Write(gone, "3"), e.h.Delete(e.key("never there"))}
	e.save(c, b)
	e.wantRows(map[string]string{back: "", gone: "3"})
}

func saveWithoutMoving[W any](e *env[W]) {
	c := e.claim(e.lane(0))
	at := framework.Progress{Position: offsetstore.At(0)}
	for n := range 3 {
		number := strconv.Itoa(n)
		to := framework.Progress{Position: at.Position, Lane: []byte(number)}
		b := &framework.Batch[W]{From: at, To: to, Writes: []W{e.h.Write(e.key("row"), number)}}
		e.save(c, b)
		e.wantRows(map[string]string{e.key("row"): number})
		at = to
	}
	if got := e.claim(e.lane(0)).Progress(); got.Position.Offset != 0 || string(got.Lane) != "2" {
		e.fatalf("Progress is %+v with lane data %q, want offset 0 with %q", got.Position, got.Lane, "2")
	}
}

func saveBigBatch[W any](e *env[W]) {
	b := moveBatch[W](0, int64(e.h.BigBatch))
	want := map[string]string{}
	for i := range e.h.BigBatch {
		key, value := e.key("big-%d", i), "value "+strconv.Itoa(i)
		b.Writes = append(b.Writes, e.h.Write(key, value))
		want[key] = value
		if e.h.Guarantee.State {
			b.State = append(b.State, framework.StateEntry{StateKey: countKey(i), Value: []byte(value)})
		}
	}
	e.save(e.claim(e.lane(0)), b)
	e.wantRows(want)
	c := e.claim(e.lane(0))
	if at := c.Progress().Position.Offset; at != int64(e.h.BigBatch) {
		e.fatalf("the position is %d, want %d", at, e.h.BigBatch)
	}
	if e.h.Guarantee.State {
		keys := make([]framework.StateKey, e.h.BigBatch)
		for i := range keys {
			keys[i] = countKey(i)
		}
		for i, v := range e.load(c, keys...) {
			if string(v) != "value "+strconv.Itoa(i) {
				e.fatalf("state entry %d of %d holds %s", i, len(keys), shorten(string(v)))
			}
		}
	}
}

// countKey is one of many state keys of one operator.
func countKey(i int) framework.StateKey {
	return framework.StateKey{Operator: "count", Key: []byte("key " + strconv.Itoa(i))}
}

func saveAgain[W any](e *env[W]) {
	l := e.lane(0)
	c := e.claim(l)
	e.steps(c, l, 1, 2)
	for _, replay := range []int64{2, 1} {
		// After a refusal the claim may be spent, so each attempt has its own.
		c := e.claim(l)
		err := c.Save(e.ctx, e.stepBatch(l, replay))
		if err == nil {
			e.fatalf("the position is 2; a batch from %d to %d was saved", replay-1, replay)
		}
		if se := e.wantSaveError(err); se.Outcome != framework.NotSaved || !errors.Is(err, framework.ErrCorrupt) {
			e.fatalf("the position is 2; a batch from %d to %d gave %v, want not saved and %v", replay-1, replay, err, framework.ErrCorrupt)
		}
	}
	e.wantSteps(l, 2)
}

func saveRetainsNothing[W any](e *env[W]) {
	l := e.lane(0)
	c := e.claim(l)
	b := e.stepBatch(l, 1)
	e.save(c, b)
	clear(b.Writes)
	scribble(b.To.Lane)
	for i := range b.State {
		scribble(b.State[i].Value)
		scribble(b.State[i].Key)
	}
	clear(b.DeadLetters)
	e.wantSteps(l, 1)
}

func scribble(p []byte) {
	for i := range p {
		p[i] = 'X'
	}
}
