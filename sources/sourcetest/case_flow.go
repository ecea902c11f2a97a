package sourcetest

import (
	"sync"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

func flowCases() []testCase {
	return []testCase{{
		name: "pause_silences",
		rule: "after Pause a partition soon delivers nothing more, while others go on; Resume continues where it was",
		run:  pauseSilences,
	}, {
		name: "pause_loses_nothing",
		rule: "pausing and resuming, at any time, loses no record and repeats none",
		run:  pauseLosesNothing,
	}, {
		name: "pause_repeated",
		rule: "repeating Pause or Resume does nothing",
		run: func(e *env) {
			e.create(1)
			e.append(0, 0, 10)
			s := e.lanes()
			e.run(s)
			l := s.lane(0)
			s.mustBegin(l, 0)
			for range 3 {
				l.p.Pause()
				l.p.Pause()
				l.p.Resume()
			}
			e.append(0, 10, 20)
			s.waitNext(l, 20)
			s.want(l, sequence(0, 20))
		},
	}, {
		name: "methods_within_calls",
		rule: "Pause, Resume and Mirror may be called from within a call to Lanes, and return at once",
		run:  methodsWithinCalls,
	}, {
		name: "methods_concurrently",
		rule: "the methods of a partition may be called from any goroutine",
		run:  methodsConcurrently,
	}, {
		name: "confirm_owner",
		rule: "Confirm returns nil while the group counts us as the owner, started or not",
		run: func(e *env) {
			e.create(1)
			e.append(0, 0, 3)
			s := e.lanes()
			e.run(s)
			l := s.lane(0)
			e.wantOwner(l, "before the start")
			s.mustBegin(l, 0)
			s.waitNext(l, 1)
			e.wantOwner(l, "while reading")
			l.p.Pause()
			e.wantOwner(l, "while paused")
		},
	}, {
		name:  "mirror_never_decides",
		rule:  "what was mirrored never decides where a partition starts",
		needs: need{features: Features{Log: true}},
		run:   mirrorNeverDecides,
	}}
}

// pauseSilences uses another partition as its clock: what that one delivers was
// written after the pause.
func pauseSilences(e *env) {
	e.create(2)
	e.append(0, 0, 10)
	e.append(1, 0, 10)
	st := e.store()
	s := st.lanes()
	e.run(s)
	paused, other := s.lane(0), s.lane(1)
	s.waitNext(paused, 10)
	s.waitNext(other, 10)
	paused.p.Pause()
	e.append(1, 10, 20)
	s.waitNext(other, 20) // in effect from here on
	e.append(0, 10, 20)
	e.append(1, 20, 30)
	s.waitNext(other, 30)
	e.letTimePass(s, other, 30)
	s.want(paused, sequence(0, 10))
	paused.p.Resume()
	s.waitNext(paused, 20)
	s.want(paused, sequence(0, 20))
}

func pauseLosesNothing(e *env) {
	const records = 300
	e.create(2)
	e.append(0, 0, records)
	e.append(1, 0, records)
	st := e.store()
	s := st.lanes()
	var resumers sync.WaitGroup
	s.onRecords = func(l *lane, recs []framework.Record) {
		st.save(l, recs)
		l.p.Pause()
		resumers.Go(l.p.Resume)
	}
	e.run(s)
	for n := range int32(2) {
		l := s.lane(n)
		s.waitNext(l, records)
		s.want(l, sequence(0, records))
	}
	s.e.processes[0].end()
	resumers.Wait()
}

func methodsWithinCalls(e *env) {
	e.create(1)
	e.append(0, 0, 30)
	st := e.store()
	s := st.lanes()
	all := func(l *lane) {
		l.p.Pause()
		l.p.Mirror(st.position(l.tp))
		l.p.Resume()
	}
	s.onAssigned = all
	s.onRecords = func(l *lane, recs []framework.Record) {
		st.save(l, recs)
		all(l)
	}
	e.run(s)
	l := s.lane(0)
	s.waitNext(l, 30)
	s.want(l, sequence(0, 30))
}

func methodsConcurrently(e *env) {
	const records = 200
	e.create(1)
	e.append(0, 0, records)
	st := e.store()
	s := st.lanes()
	e.run(s)
	l := s.lane(0)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				l.p.Pause()
				_ = l.p.TopicPartition()
				l.p.Mirror(st.position(l.tp))
				if err := l.p.Confirm(e.ctx); err != nil {
					e.errorf("Confirm returned %v", err)
				}
				l.p.Resume()
			}
		})
	}
	wg.Wait()
	l.p.Resume()
	s.waitNext(l, records)
	s.want(l, sequence(0, records))
}

func (e *env) wantOwner(l *lane, when string) {
	e.r.Helper()
	if err := l.p.Confirm(e.ctx); err != nil {
		e.fatalf("%s Confirm returned %v", when, err)
	}
}

func mirrorNeverDecides(e *env) {
	e.create(1)
	e.append(0, 0, 10)
	s := e.lanesFrom(0)
	p := e.run(s)
	l := s.lane(0)
	s.waitNext(l, 10)
	l.p.Mirror(offsetstore.At(8))
	p.end()
	again := e.lanesFrom(2)
	e.run(again)
	l = again.lane(0)
	again.waitNext(l, 10)
	again.want(l, sequence(2, 10))
}
