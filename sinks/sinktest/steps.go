package sinktest

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// A step is a batch that leaves its number in every part of what a sink keeps:
// the position, the lane's data, a row that is replaced and a row of its own, a
// running total and a dead letter. After n whole steps all of them say n, so
// half of a step cannot hide.

// lane is a partition of a pipeline.
type lane struct {
	pipeline string
	tp       offsetstore.TopicPartition
}

// lane returns the lane of a partition of the case's own pipeline and topic.
func (e *env[W]) lane(partition int32) lane {
	return lane{e.pipeline, offsetstore.TopicPartition{Topic: "topic", Partition: partition}}
}

// stepBatch returns step n of l, from offset n-1 to n.
func (e *env[W]) stepBatch(l lane, n int64) *framework.Batch[W] {
	number := strconv.FormatInt(n, 10)
	b := &framework.Batch[W]{
		From: stepProgress(n - 1),
		To:   stepProgress(n),
		Writes: []W{
			e.h.Write(e.stepRow(l, 0), number),
			e.h.Write(e.stepRow(l, n), number),
		},
	}
	if e.h.Guarantee.State {
		b.State = []framework.StateEntry{{StateKey: stepState(), Value: []byte(number)}}
	}
	if e.h.Guarantee.DeadLetters {
		b.DeadLetters = []framework.DeadLetter{{Offset: n - 1, Stage: "decode", Error: "step", FailedAt: time.UnixMilli(n)}}
	}
	return b
}

// stepState returns the key of the running total, fresh each time: callers may
// scribble on it.
func stepState() framework.StateKey {
	return framework.StateKey{Operator: "steps", Key: []byte("total")}
}

// stepRow is the row of step n; row 0 is the one that every step replaces.
func (e *env[W]) stepRow(l lane, n int64) string {
	return e.key("%s/%s/step-%d", l.pipeline, l.tp, n)
}

func stepProgress(n int64) framework.Progress {
	p := framework.Progress{Position: offsetstore.At(n)}
	if n > 0 {
		p.Lane = fmt.Appendf(nil, "lane %d", n)
	}
	return p
}

// steps takes steps from..to of l.
func (e *env[W]) steps(c framework.Claim[W], l lane, from, to int64) {
	e.r.Helper()
	for n := from; n <= to; n++ {
		e.save(c, e.stepBatch(l, n))
	}
}

// wantSteps claims l through a new handle, as a restart does, and checks that
// everything stored says n. It returns the claim.
func (e *env[W]) wantSteps(l lane, n int64) framework.Claim[W] {
	e.r.Helper()
	c := e.claim(l)
	e.wantStepsOf(c, l, n)
	return c
}

// wantStepsOf checks with a claim that has not saved anything yet.
func (e *env[W]) wantStepsOf(c framework.Claim[W], l lane, n int64) {
	e.r.Helper()
	if got, want := c.Progress(), stepProgress(n); got.Position != want.Position {
		e.fatalf("after %d saves the position is %+v, want %+v", n, got.Position, want.Position)
	} else if !bytes.Equal(got.Lane, want.Lane) {
		e.fatalf("at position %d the lane's data is %q, want %q", n, got.Lane, want.Lane)
	}
	number := "" // no row, no state
	if n > 0 {
		number = strconv.FormatInt(n, 10)
	}
	e.wantRows(map[string]string{
		e.stepRow(l, 0):         number,
		e.stepRow(l, max(n, 1)): number,
		e.stepRow(l, n+1):       "",
	})
	if e.h.Guarantee.State {
		if v := e.load(c, stepState())[0]; string(v) != number {
			e.fatalf("at position %d the state holds %s, want %s", n, shorten(string(v)), shorten(number))
		}
	}
	if e.h.Guarantee.DeadLetters {
		if d := e.deadLetters(l); int64(len(d)) != n {
			e.fatalf("at position %d there are %d dead letters, want %d", n, len(d), n)
		}
	}
}

func (e *env[W]) deadLetters(l lane) []framework.DeadLetter {
	e.r.Helper()
	ds, err := e.h.DeadLetters(e.ctx, l.pipeline, l.tp)
	if err != nil {
		e.fatalf("the dead letters could not be read: %v", err)
	}
	return ds
}
