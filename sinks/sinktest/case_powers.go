package sinktest

import (
	"context"
	"errors"
	"sync"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// power is the name of one of the framework's optional interfaces.
type power string

const (
	listsPositions   power = "PositionLister"
	listsDeadLetters power = "DeadLetterLister"
	dropsDeadLetters power = "DeadLetterDropper"
	listsState       power = "StateLister"
	flushes          power = "Flusher"
	resets           power = "Resetter"
	migrates         power = "Migrator"
	tellsHealth      power = "HealthChecker"
)

type powers map[power]bool

// powersOf opens the sink to see what powers it has.
func powersOf[W any](ctx context.Context, h Harness[W]) (powers, error) {
	s, err := h.Open(ctx)
	if err != nil {
		return nil, err
	}
	has := powers{}
	_, has[listsPositions] = s.(framework.PositionLister)
	_, has[listsDeadLetters] = s.(framework.DeadLetterLister)
	_, has[dropsDeadLetters] = s.(framework.DeadLetterDropper)
	_, has[listsState] = s.(framework.StateLister)
	_, has[flushes] = s.(framework.Flusher)
	_, has[resets] = s.(framework.Resetter)
	_, has[migrates] = s.(framework.Migrator)
	_, has[tellsHealth] = s.(framework.HealthChecker)
	return has, s.Close(ctx)
}

// powerCases check the optional powers of a sink that has them.
func powerCases[W any]() []testCase[W] {
	return []testCase[W]{{
		name:  "positions_listed",
		rule:  "Positions returns every stored position of a pipeline, or of all, ordered by pipeline, topic and partition, with owner and time of the last save",
		needs: need{power: listsPositions},
		run:   positionsListed[W],
	}, {
		name:  "positions_disturb_nobody",
		rule:  "Positions does not disturb running lanes",
		needs: need{power: listsPositions},
		run: func(e *env[W]) {
			p := e.open().(framework.PositionLister)
			l := e.lane(0)
			c := e.claim(l)
			for n := range int64(3) {
				e.steps(c, l, n+1, n+1)
				e.positions(p, e.pipeline)
			}
			e.wantSteps(l, 3)
		},
	}, {
		name:  "dead_letters_listed",
		rule:  "DeadLetters returns the dead letters of one partition in offset order, and does not disturb running lanes",
		needs: need{deadLetters: true, power: listsDeadLetters},
		run:   deadLettersListed[W],
	}, {
		name:  "migrate_again",
		rule:  "Migrate is idempotent, safe when several processes run it at once, and leaves what is stored alone",
		needs: need{power: migrates},
		run:   migrateAgain[W],
	}, {
		name:  "health",
		rule:  "Health returns nil while the sink can be reached",
		needs: need{power: tellsHealth},
		run: func(e *env[W]) {
			if err := e.open().(framework.HealthChecker).Health(e.ctx); err != nil {
				e.fatalf("Health returned %v", err)
			}
		},
	}}
}

func (e *env[W]) positions(p framework.PositionLister, pipeline string) []framework.StoredPosition {
	e.r.Helper()
	ps, err := p.Positions(e.ctx, pipeline)
	if err != nil {
		e.fatalf("Positions returned %v", err)
	}
	return ps
}

func positionsListed[W any](e *env[W]) {
	p := e.open().(framework.PositionLister)
	if ps := e.positions(p, e.pipeline); len(ps) != 0 {
		e.fatalf("Positions of a pipeline that never ran returned %+v", ps)
	}
	// In the order in which they should be listed, claimed in another.
	lanes := []lane{
		{e.pipeline, offsetstore.TopicPartition{Topic: "a", Partition: 2}},
		{e.pipeline, offsetstore.TopicPartition{Topic: "a", Partition: 10}},
		{e.pipeline, offsetstore.TopicPartition{Topic: "b", Partition: 0}},
		{e.pipeline + "-other", offsetstore.TopicPartition{Topic: "a", Partition: 0}},
	}
	s := e.open()
	claims := make([]framework.Claim[W], len(lanes))
	for _, i := range []int{3, 1, 2, 0} {
		claims[i] = e.claimOn(s, lanes[i], offsetstore.At(0))
	}
	e.steps(claims[0], lanes[0], 1, 3)
	e.release(claims[1])

	wantListed := func(pipeline string, got []framework.StoredPosition, want []lane) {
		e.r.Helper()
		if len(got) != len(want) {
			e.fatalf("Positions of %q returned %d positions, want %d: %+v", pipeline, len(got), len(want), got)
		}
		for i, l := range want {
			if got[i].Pipeline != l.pipeline || got[i].TopicPartition != l.tp {
				e.fatalf("Positions of %q: place %d is %q %s, want %q %s", pipeline, i, got[i].Pipeline, got[i].TopicPartition, l.pipeline, l.tp)
			}
		}
	}
	got := e.positions(p, e.pipeline)
	wantListed(e.pipeline, got, lanes[:3])
	wantListed("", e.onlyMine(e.positions(p, "")), lanes)

	saved, released, claimed := got[0], got[1], got[2]
	switch want := stepProgress(3); {
	case saved.Position != want.Position || string(saved.Lane) != string(want.Lane):
		e.fatalf("%s is listed at %+v with lane data %q, want %+v with %q", saved.TopicPartition, saved.Position, saved.Lane, want.Position, want.Lane)
	case saved.SavedAt.IsZero() || !claimed.SavedAt.IsZero():
		e.fatalf("the times of the last save are %v and %v, want a time, and none where nothing was saved", saved.SavedAt, claimed.SavedAt)
	case saved.Owner == "" || claimed.Owner == "" || released.Owner != "":
		e.fatalf("the owners are %q, %q, and %q after a release; want two names, and none", saved.Owner, claimed.Owner, released.Owner)
	}
}

// onlyMine drops the positions of other cases and users of the store.
func (e *env[W]) onlyMine(ps []framework.StoredPosition) []framework.StoredPosition {
	var mine []framework.StoredPosition
	for _, p := range ps {
		if p.Pipeline == e.pipeline || p.Pipeline == e.pipeline+"-other" {
			mine = append(mine, p)
		}
	}
	return mine
}

func deadLettersListed[W any](e *env[W]) {
	l, other := e.lane(0), e.lane(1)
	c := e.claim(l)
	e.steps(e.claim(other), other, 1, 1)
	for n := range int64(3) {
		e.steps(c, l, n+1, n+1)
		listed, err := e.open().(framework.DeadLetterLister).DeadLetters(e.ctx, l.pipeline, l.tp)
		if err != nil {
			e.fatalf("DeadLetters returned %v", err)
		}
		if int64(len(listed)) != n+1 {
			e.fatalf("after %d saves of a dead letter each DeadLetters returned %d", n+1, len(listed))
		}
		for i, d := range listed {
			if difference := deadLetterDiffers(d, e.stepBatch(l, int64(i+1)).DeadLetters[0]); difference != "" {
				e.fatalf("dead letter %d: %s", i, difference)
			}
		}
	}
	e.wantSteps(l, 3)
}

func migrateAgain[W any](e *env[W]) {
	l := e.lane(0)
	c := e.claim(l)
	e.steps(c, l, 1, 1)
	sinks := []framework.Sink[W]{e.open(), e.open()}
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = sinks[i%2].(framework.Migrator).Migrate(e.ctx) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		e.fatalf("Migrate, four times at once, returned %v", err)
	}
	e.steps(c, l, 2, 2)
	e.wantSteps(l, 2)
}
