package sourcetest

import "github.com/lockstep-stream/lockstep/offsetstore"

func startCases() []testCase {
	log := need{features: Features{Log: true}}
	return []testCase{{
		name: "start_at_its_position",
		rule: "a partition begins with the record at the position it is started at, each partition at its own",
		run:  startAtItsPosition,
	}, {
		name: "start_at_zero",
		rule: "position 0 is a position like any other",
		run: func(e *env) {
			e.create(1)
			e.append(0, 0, 5)
			s := e.lanesFrom(0)
			e.run(s)
			l := s.lane(0)
			s.waitNext(l, 5)
			s.want(l, sequence(0, 5))
		},
	}, {
		name:  "start_at_log_end",
		rule:  "started at the end of the log, a partition waits for the next record",
		needs: log,
		run: func(e *env) {
			e.create(1)
			e.append(0, 0, 5)
			s := e.lanesFrom(5)
			e.run(s)
			l := s.lane(0)
			e.append(0, 5, 8)
			s.waitNext(l, 8)
			s.want(l, sequence(5, 8))
		},
	}, {
		name: "start_before_records",
		rule: "a partition that was not started delivers nothing, resumed or not, and holds up no other",
		run:  startBeforeRecords,
	}, {
		name: "start_is_paused",
		rule: "after Start a partition is paused until Resume",
		run:  startIsPaused,
	}, {
		name:  "start_again",
		rule:  "Start may be called again on a paused partition; after it has returned no record read before it is delivered",
		needs: log,
		run:   startAgain,
	}, {
		name: "start_again_where_saved",
		rule: "Start may be called again, at the last saved position, whatever was delivered after that",
		run:  startAgainWhereSaved,
	}}
}

func startAtItsPosition(e *env) {
	const partitions, records = 3, 50
	e.create(partitions)
	for n := range int32(partitions) {
		e.append(n, 0, records)
	}
	s := e.lanes()
	s.start = func(tp offsetstore.TopicPartition) offsetstore.Position {
		return offsetstore.At(int64(7 * tp.Partition))
	}
	e.run(s)
	for n := range int32(partitions) {
		l := s.lane(n)
		s.waitNext(l, records)
		s.want(l, sequence(int64(7*n), records))
	}
}

func startBeforeRecords(e *env) {
	e.create(2)
	e.append(0, 0, 10)
	e.append(1, 0, 10)
	s := e.lanes()
	e.run(s)
	silent, other := s.lane(0), s.lane(1)
	silent.p.Resume() // means nothing before Start
	s.mustBegin(other, 0)
	s.waitNext(other, 10)
	e.letTimePass(s, other, 10)
	s.want(silent, nil)
	s.mustBegin(silent, 7)
	s.waitNext(silent, 10)
	s.want(silent, sequence(7, 10))
}

func startIsPaused(e *env) {
	e.create(2)
	e.append(0, 0, 10)
	e.append(1, 0, 10)
	s := e.lanes()
	e.run(s)
	paused, other := s.lane(0), s.lane(1)
	if err := s.startOnly(paused, offsetstore.At(3)); err != nil {
		e.fatalf("Start returned %v", err)
	}
	s.mustBegin(other, 0)
	s.waitNext(other, 10)
	e.letTimePass(s, other, 10)
	s.want(paused, nil)
	paused.p.Resume()
	s.waitNext(paused, 10)
	s.want(paused, sequence(3, 10))
}

func startAgain(e *env) {
	const records = 2000
	e.create(1)
	e.append(0, 0, records)
	s := e.lanesFrom(0)
	e.run(s)
	l := s.lane(0)
	for _, at := range []int64{500, 500, 0, records - 1, 3, 3} {
		s.wait("records after a start", func() bool { return len(l.records) > 0 })
		l.p.Pause()
		s.mustBegin(l, at)
		s.wait("records after a start", func() bool { return len(l.records) > 0 })
		if first := s.offsets(l)[0]; first != at {
			e.fatalf("started again at %d, the first record was %d", at, first)
		}
	}
	s.waitNext(l, records)
	s.want(l, sequence(3, records))
}

// startAgainWhereSaved is what a lane does whose claim was spent: it has taken
// records that the sink does not have.
func startAgainWhereSaved(e *env) {
	e.create(1)
	e.append(0, 0, 20)
	s := e.lanesFrom(0)
	s.unsaved = true
	e.run(s)
	l := s.lane(0)
	s.wait("a first record", func() bool { return l.next() > 0 })
	l.p.Mirror(offsetstore.At(1))
	for range 3 {
		s.wait("a record behind the saved position", func() bool { return l.next() > 1 })
		l.p.Pause()
		s.mustBegin(l, 1)
	}
	s.mu.Lock()
	from := l.next()
	s.mu.Unlock()
	for at := max(from, 1); at < 20; at++ { // a source may wait for what it gave to be saved
		s.waitNext(l, at)
		l.p.Mirror(offsetstore.At(at))
	}
	s.waitNext(l, 20)
	s.want(l, sequence(1, 20))
}
