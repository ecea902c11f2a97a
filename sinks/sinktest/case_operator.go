package sinktest

import (
	"errors"
	"maps"

	"github.com/lockstep-stream/lockstep/framework"
)

// operatorCases check the powers by which an operator looks at what lanes have left
// behind, and tidies it up.
func operatorCases[W any]() []testCase[W] {
	return []testCase[W]{{
		name:  "dead_letters_dropped",
		rule:  "DropDeadLetters removes the letters as given by offset, stage and time of failure, no others, and does not disturb running lanes",
		needs: need{deadLetters: true, power: dropsDeadLetters},
		run:   deadLettersDropped[W],
	}, {
		name:  "state_listed",
		rule:  "State returns every entry of one operator in all partitions of one pipeline, or of all operators, as the saves and resets have left it, and does not disturb running lanes",
		needs: need{state: true, power: listsState},
		run:   stateListed[W],
	}, {
		name:  "state_listing_stops",
		rule:  "a loop over State may be left early, and the sink works on",
		needs: need{state: true, power: listsState},
		run:   stateListingStops[W],
	}, {
		name:  "flush_claims_nothing",
		rule:  "Flush returns nil where every save is visible, does not disturb an owner, and wraps ErrRefused where nothing is stored",
		needs: need{power: flushes},
		run:   flushClaimsNothing[W],
	}}
}

func deadLettersDropped[W any](e *env[W]) {
	l, other := e.lane(0), e.lane(1)
	c := e.claim(l)
	e.steps(c, l, 1, 4)
	e.steps(e.claim(other), other, 1, 2)
	kept := e.deadLetters(l)
	newer := kept[3]
	newer.FailedAt = newer.FailedAt.AddDate(0, 0, -1) // as if it had failed again since this was read
	drop := []framework.DeadLetter{kept[0], kept[2], newer}
	for range 2 { // it may be repeated
		if err := e.open().(framework.DeadLetterDropper).DropDeadLetters(e.ctx, l.pipeline, l.tp, drop); err != nil {
			e.fatalf("DropDeadLetters returned %v", err)
		}
		e.wantDeadLetters(l, kept[1], kept[3])
	}
	e.wantSteps(other, 2)
	e.steps(c, l, 5, 5) // nobody was fenced
	e.wantDeadLetters(l, kept[1], kept[3], e.stepBatch(l, 5).DeadLetters[0])
}

// state lists the values of an operator by partition and key.
func (e *env[W]) state(operator string) map[string]string {
	e.r.Helper()
	found := map[string]string{}
	for s, err := range e.open().(framework.StateLister).State(e.ctx, e.pipeline, operator) {
		if err != nil {
			e.fatalf("State returned %v", err)
		}
		place := s.String() + " " + s.Operator + " " + string(s.Key)
		if _, twice := found[place]; twice {
			e.fatalf("State returned %q twice", place)
		}
		found[place] = string(s.Value)
	}
	return found
}

func stateListed[W any](e *env[W]) {
	l, second, foreign := e.lane(0), e.lane(1), e.lane(0)
	foreign.pipeline += "-other"
	c := e.claim(l)
	e.steps(c, l, 1, 3)
	e.steps(e.claim(second), second, 1, 1)
	e.steps(e.claim(foreign), foreign, 1, 2)
	b := moveBatch[W](3, 4)
	b.From = stepProgress(3)
	b.State = []framework.StateEntry{
		{StateKey: framework.StateKey{Operator: "another", Key: nil}, Value: []byte("4")},
		{StateKey: framework.StateKey{Operator: "another", Key: []byte("\x00\xff")}, Value: []byte{}},
	}
	e.save(c, b)
	steps := map[string]string{"topic/0 steps total": "3", "topic/1 steps total": "1"}
	if got := e.state("steps"); !maps.Equal(got, steps) {
		e.fatalf("State of operator \"steps\" returned %q, want %q", got, steps)
	}
	all := maps.Clone(steps)
	all["topic/0 another "], all["topic/0 another \x00\xff"] = "4", ""
	if got := e.state(""); !maps.Equal(got, all) {
		e.fatalf("State of all operators returned %q, want %q", got, all)
	}
	remove := moveBatch[W](4, 5)
	remove.State = []framework.StateEntry{{StateKey: framework.StateKey{Operator: "another"}}}
	e.save(c, remove)
	delete(all, "topic/0 another ")
	if got := e.state(""); !maps.Equal(got, all) {
		e.fatalf("after a removal State returned %q, want %q", got, all)
	}
	if r, ok := e.open().(framework.Resetter); ok {
		e.reset(r, second, 1, stepProgress(0).Position, true)
		delete(all, "topic/1 steps total")
		if got := e.state(""); !maps.Equal(got, all) {
			e.fatalf("after a reset with DropState of topic/1 State returned %q, want %q", got, all)
		}
	}
}

func stateListingStops[W any](e *env[W]) {
	l, other := e.lane(0), e.lane(1)
	c := e.claim(l)
	e.steps(c, l, 1, 1)
	e.steps(e.claim(other), other, 1, 1)
	s := e.open()
	for range 3 {
		for _, err := range s.(framework.StateLister).State(e.ctx, e.pipeline, "") {
			if err != nil {
				e.fatalf("State returned %v", err)
			}
			break
		}
	}
	e.steps(c, l, 2, 2)
	e.wantSteps(l, 2)
	if err := s.Close(e.ctx); err != nil {
		e.fatalf("Close returned %v", err)
	}
	seen := 0
	for _, err := range s.(framework.StateLister).State(e.ctx, e.pipeline, "") {
		if seen++; !errors.Is(err, framework.ErrClosed) {
			e.fatalf("State of a closed sink returned %v, want ErrClosed", err)
		}
	}
	if seen != 1 {
		e.fatalf("State of a closed sink returned %d answers, want one error", seen)
	}
}

func flushClaimsNothing[W any](e *env[W]) {
	l := e.lane(0)
	f := e.open().(framework.Flusher)
	if err := f.Flush(e.ctx, l.pipeline, l.tp); !errors.Is(err, framework.ErrRefused) {
		e.fatalf("Flush of what was never claimed returned %v, want ErrRefused", err)
	}
	c := e.claim(l)
	for n := range int64(3) {
		e.steps(c, l, n+1, n+1)
		if err := f.Flush(e.ctx, l.pipeline, l.tp); err != nil {
			e.fatalf("Flush returned %v", err)
		}
	}
	e.wantSteps(l, 3)
}
