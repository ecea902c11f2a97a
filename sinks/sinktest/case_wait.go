package sinktest

import (
	"context"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// waitCases check calls that wait for another process, which may be stopped for
// as long as the machine likes.
func waitCases[W any]() []testCase[W] {
	needs := need{hold: true}
	return []testCase[W]{{
		name:  "wait_ends_with_context",
		rule:  "a call that waits for another process returns soon when its context is cancelled, and says what is known",
		needs: needs,
		run: func(e *env[W]) {
			e.whileHeld(func(w *waiting[W]) { w.cancel() })
		},
	}, {
		name:  "wait_ends_with_close",
		rule:  "a call that waits for another process ends soon when its sink is closed, and Close does not wait for the other process either",
		needs: needs,
		run: func(e *env[W]) {
			e.whileHeld(func(w *waiting[W]) {
				closed := make(chan error, 1)
				go func() { closed <- w.sink.Close(context.WithoutCancel(e.ctx)) }()
				if err, ended := within(soon, closed); !ended {
					w.stuck("Close", closed)
				} else if err != nil {
					e.fatalf("Close returned %v", err)
				}
			})
		},
	}}
}

const (
	// untilItWaits is time for a call to come to where it waits. If it needs more,
	// the case proves less; a good sink passes all the same.
	untilItWaits = 50 * time.Millisecond
	// soon is how long a call may take to end. Only one that breaks the rule takes
	// anything like it.
	soon = 15 * time.Second
)

// waiting is a call that may wait.
type waiting[W any] struct {
	e       *env[W]
	name    string
	sink    framework.Sink[W]
	lane    lane // where step 1 was taken
	cancel  context.CancelFunc
	release func() // lets it go on
	err     chan error
}

// whileHeld makes each call wait, lets interrupt end the wait, and checks that
// the call returns.
func (e *env[W]) whileHeld(interrupt func(w *waiting[W])) {
	for i, name := range []string{"Save", "Claim", "Release", "Topic", "Load"} {
		if name == "Load" && !e.h.Guarantee.State {
			continue
		}
		w := e.startHeld(e.lane(int32(i)), name)
		err, ended := within(untilItWaits, w.err)
		interrupt(w)
		if !ended {
			if err, ended = within(soon, w.err); !ended {
				w.stuck(name, w.err)
			}
		}
		w.cancel()
		w.release()
		w.settle(err)
	}
}

// startHeld takes a step, has the lane held, and starts the call.
func (e *env[W]) startHeld(l lane, name string) *waiting[W] {
	e.r.Helper()
	w := &waiting[W]{e: e, name: name, sink: e.open(), lane: l, err: make(chan error, 1)}
	c := e.claimOn(w.sink, l, offsetstore.At(0))
	e.steps(c, l, 1, 1)
	release, err := e.h.Hold(e.ctx, l.pipeline, l.tp)
	if err != nil {
		e.fatalf("Harness.Hold returned %v", err)
	}
	w.release = release
	ctx, cancel := context.WithCancel(e.ctx)
	w.cancel = cancel
	go func() { w.err <- w.call(ctx, c) }()
	return w
}

func (w *waiting[W]) call(ctx context.Context, c framework.Claim[W]) (err error) {
	switch l := w.lane; w.name {
	case "Save":
		err = c.Save(ctx, w.e.stepBatch(l, 2))
	case "Claim":
		_, err = w.sink.Claim(ctx, l.pipeline, l.tp, offsetstore.At(0))
	case "Release":
		err = c.Release(ctx)
	case "Topic":
		_, err = w.sink.Topic(ctx, l.pipeline, l.tp.Topic, topicStart(1))
	case "Load":
		_, err = c.Load(ctx, []framework.StateKey{stepState()})
	}
	return err
}

// stuck ends the case, but first the call, by letting the other process go on.
func (w *waiting[W]) stuck(call string, ended <-chan error) {
	w.e.r.Helper()
	w.cancel()
	w.release()
	w.e.fatalf("%s did not return within %v; when the other process went on it returned %v", call, soon, <-ended)
}

// settle checks that what the call left behind is what it said.
func (w *waiting[W]) settle(err error) {
	w.e.r.Helper()
	outcome := framework.NotSaved
	if w.name == "Save" {
		outcome, _ = w.e.outcomeOf(err)
	}
	w.e.wantOutcome(w.lane, 1, outcome)
}

// within waits for a value, for so long.
func within(limit time.Duration, values <-chan error) (value error, came bool) {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case value = <-values:
		return value, true
	case <-t.C:
		return nil, false
	}
}
