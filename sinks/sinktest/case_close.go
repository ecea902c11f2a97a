package sinktest

import (
	"context"
	"errors"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

func closeCases[W any]() []testCase[W] {
	return []testCase[W]{{
		name: "close_twice",
		rule: "a second Close does nothing, and other handles to the same store are not concerned",
		run: func(e *env[W]) {
			l := e.lane(0)
			c := e.claim(l)
			other := e.open()
			for range 2 {
				if err := other.Close(e.ctx); err != nil {
					e.fatalf("Close returned %v", err)
				}
			}
			e.steps(c, l, 1, 1)
			e.wantSteps(l, 1)
		},
	}, {
		name: "close_with_ended_context",
		rule: "Close closes the sink also when its context has ended, which may only keep it from waiting",
		run:  closeWithEndedContext[W],
	}, {
		name: "use_after_close",
		rule: "calls after Close return ErrClosed, Save with the claim spent, and change nothing; Release may return nil",
		run:  useAfterClose[W],
	}}
}

func closeWithEndedContext[W any](e *env[W]) {
	l := e.lane(0)
	s := e.open()
	c := e.claimOn(s, l, offsetstore.At(0))
	e.steps(c, l, 1, 1)
	ended, cancel := context.WithCancel(e.ctx)
	cancel()
	if err := s.Close(ended); err != nil && !errors.Is(err, context.Canceled) {
		e.fatalf("Close with an ended context returned %v, want nil or the context's error", err)
	}
	if err := c.Save(e.ctx, e.stepBatch(l, 2)); !errors.Is(err, framework.ErrClosed) {
		e.fatalf("Save after Close with an ended context returned %v, want ErrClosed", err)
	}
	e.wantSteps(l, 1)
}

func useAfterClose[W any](e *env[W]) {
	l := e.lane(0)
	s := e.open()
	c := e.claimOn(s, l, offsetstore.At(0))
	e.steps(c, l, 1, 1)
	if err := s.Close(e.ctx); err != nil {
		e.fatalf("Close returned %v", err)
	}
	wantClosed := func(call string, err error) {
		e.r.Helper()
		if !errors.Is(err, framework.ErrClosed) {
			e.fatalf("%s after Close returned %v, want ErrClosed", call, err)
		}
	}
	saveErr := c.Save(e.ctx, e.stepBatch(l, 2))
	wantClosed("Save", saveErr)
	if se := e.wantSaveError(saveErr); se.Outcome != framework.NotSaved {
		e.fatalf("Save after Close returned %v, want the outcome not saved", saveErr)
	}
	if e.h.Guarantee.State {
		_, err := c.Load(e.ctx, []framework.StateKey{stepState()})
		wantClosed("Load", err)
	}
	if err := c.Release(e.ctx); err != nil {
		wantClosed("Release", err)
	}
	_, err := s.Claim(e.ctx, l.pipeline, l.tp, offsetstore.At(0))
	wantClosed("Claim", err)
	_, err = s.Topic(e.ctx, l.pipeline, l.tp.Topic, topicStart(1))
	wantClosed("Topic", err)
	if p, ok := s.(framework.PositionLister); ok {
		_, err := p.Positions(e.ctx, l.pipeline)
		wantClosed("Positions", err)
	}
	if d, ok := s.(framework.DeadLetterLister); ok {
		_, err := d.DeadLetters(e.ctx, l.pipeline, l.tp)
		wantClosed("DeadLetters", err)
	}
	if r, ok := s.(framework.Resetter); ok {
		at := stepProgress(1).Position
		wantClosed("Reset", r.Reset(e.ctx, framework.Reset{Pipeline: l.pipeline, TopicPartition: l.tp, From: at, To: at}))
	}
	if h, ok := s.(framework.HealthChecker); ok {
		wantClosed("Health", h.Health(e.ctx))
	}
	if m, ok := s.(framework.Migrator); ok {
		wantClosed("Migrate", m.Migrate(e.ctx))
	}
	e.wantTopic(e.open(), l.pipeline, l.tp.Topic, topicStart(2), topicStart(2))
	e.wantSteps(l, 1)
}
