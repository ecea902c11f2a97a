package sinktest

import (
	"maps"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

func answerCases[W any]() []testCase[W] {
	return []testCase[W]{{
		name: "topic_is_the_callers",
		rule: "what Topic was given and what it returned belong to the caller: changing one changes neither the other nor what is stored",
		run:  topicIsTheCallers[W],
	}, {
		name: "progress_is_the_callers",
		rule: "what Progress returns belongs to the caller: changing it changes neither the next answer nor what is stored",
		run: func(e *env[W]) {
			l := e.lane(0)
			e.steps(e.claim(l), l, 1, 1)
			c := e.claim(l)
			scribble(c.Progress().Lane)
			e.wantStepsOf(c, l, 1)
			e.wantSteps(l, 1)
		},
	}, {
		name:  "values_are_the_callers",
		rule:  "what Load returns belongs to the caller: changing it changes neither the next answer nor what is stored",
		needs: need{state: true},
		run: func(e *env[W]) {
			l := e.lane(0)
			c := e.claim(l)
			e.steps(c, l, 1, 1)
			scribble(e.load(c, stepState())[0])
			e.wantState(c, want{stepState().Operator, 0, string(stepState().Key), "1"})
			e.wantSteps(l, 1)
		},
	}, {
		name:  "positions_are_the_callers",
		rule:  "what Positions returns belongs to the caller: changing it changes neither the next answer nor what is stored",
		needs: need{power: listsPositions},
		run:   positionsAreTheCallers[W],
	}}
}

func topicIsTheCallers[W any](e *env[W]) {
	s := e.open()
	for _, changed := range []string{"proposal", "first answer", "second answer"} {
		proposal := topicStart(1)
		first := e.topic(s, e.pipeline, changed, proposal)
		second := e.topic(s, e.pipeline, changed, topicStart(2))
		all := map[string]framework.TopicStart{"proposal": proposal, "first answer": first, "second answer": second}
		all[changed].Starts[0] = 77
		for name, start := range all {
			if name != changed && !maps.Equal(start.Starts, topicStart(1).Starts) {
				e.fatalf("the %s was changed by its owner, and so was the %s", changed, name)
			}
		}
		e.wantTopic(s, e.pipeline, changed, topicStart(3), topicStart(1))
	}
}

func positionsAreTheCallers[W any](e *env[W]) {
	s := e.open()
	l := e.lane(0)
	c := e.claimOn(s, l, offsetstore.At(0))
	e.steps(c, l, 1, 1)
	p := s.(framework.PositionLister)
	for range 2 {
		listed := e.positions(p, l.pipeline)
		if len(listed) != 1 || string(listed[0].Lane) != string(stepProgress(1).Lane) {
			e.fatalf("Positions returned %+v, want one with lane data %q", listed, stepProgress(1).Lane)
		}
		scribble(listed[0].Lane)
		listed[0] = framework.StoredPosition{}
	}
	e.wantSteps(l, 1)
}
