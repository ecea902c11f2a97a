package sourcetest

import (
	"errors"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

func positionCases() []testCase {
	return []testCase{{
		name:  "position_below_log_start",
		rule:  "Start refuses a position before the log's start with a *PositionError that wraps ErrBelowLogStart",
		needs: need{features: Features{Log: true, Retention: true}},
		run:   belowLogStart,
	}, {
		name:  "position_above_log_end",
		rule:  "Start refuses a position beyond the log's end with a *PositionError that wraps ErrAboveLogEnd",
		needs: need{features: Features{Log: true}},
		run:   aboveLogEnd,
	}, {
		name:  "position_of_unknown_epoch",
		rule:  "Start refuses a position of a leader epoch that the log has not seen, with ErrAboveLogEnd",
		needs: need{features: Features{Log: true, LeaderEpochs: true}},
		run: func(e *env) {
			e.create(1)
			e.append(0, 0, 10)
			s := e.lanes()
			e.run(s)
			err := s.startOnly(s.lane(0), offsetstore.Position{Offset: 5, LeaderEpoch: 1 << 20})
			e.wantPositionError("a position of an epoch to come", err, framework.ErrAboveLogEnd)
		},
	}, {
		name:  "position_of_other_topic",
		rule:  "Start refuses a position that belongs to a topic that was deleted and made again, with ErrTopicRecreated",
		needs: need{features: Features{Log: true, TopicIDs: true}},
		run:   otherTopic,
	}, {
		name: "position_refused_stays_silent",
		rule: "a partition whose Start has failed delivers nothing until it was started again",
		run:  refusedStaysSilent,
		needs: need{
			features: Features{Log: true},
		},
	}, {
		name:  "retention_while_reading",
		rule:  "records that are removed before they were read fail their partition alone, once, with ErrBelowLogStart; it can be started again",
		needs: need{features: Features{Log: true, Retention: true}},
		run:   retentionWhileReading,
	}, {
		name:  "recreated_while_reading",
		rule:  "a topic that is deleted and made again while it is read fails its partitions with ErrTopicRecreated; nothing of the new topic is delivered",
		needs: need{features: Features{Log: true, TopicIDs: true}},
		run:   recreatedWhileReading,
	}, {
		name:  "resolve_every_partition",
		rule:  "Resolve applies the rules to every partition the topic has: earliest, latest, a time, an offset",
		needs: need{features: Features{Log: true, WholeRecords: true}},
		run:   resolveEveryPartition,
	}, {
		name:  "resolve_outside_log",
		rule:  "Resolve refuses an exact offset outside the log with a *PositionError",
		needs: need{features: Features{Log: true}},
		run: func(e *env) {
			e.create(1)
			e.append(0, 0, 4)
			s := e.lanes()
			e.run(s)
			_, err := s.lane(0).p.Resolve(e.ctx, offsetstore.StartRules{Default: offsetstore.Exact(5)})
			e.wantPositionError("offset 5 of a log that ends at 4", err, framework.ErrAboveLogEnd)
		},
	}, {
		name: "resolve_own_partition",
		rule: "Resolve names a start for at least the partition it is asked at, from which nothing is missed",
		run: func(e *env) {
			e.create(1)
			e.append(0, 0, 4)
			s := e.lanes()
			e.run(s)
			l := s.lane(0)
			got, err := l.p.Resolve(e.ctx, offsetstore.StartRules{})
			if at, ok := got.Starts[0]; err != nil || !ok || at != 0 {
				e.fatalf("Resolve of earliest returned %+v and %v, want partition 0 at 0", got, err)
			}
		},
	}}
}

func belowLogStart(e *env) {
	e.create(1)
	e.append(0, 0, 20)
	e.harness("Retain", e.h.Retain(e.ctx, e.tp(0), 5))
	s := e.lanes()
	e.run(s)
	l := s.lane(0)
	err := s.startOnly(l, offsetstore.At(4))
	e.wantPositionError("position 4 of a log that begins at 5", err, framework.ErrBelowLogStart)
	var pe *framework.PositionError
	if errors.As(err, &pe); pe.LogStart != 5 || pe.Position.Offset != 4 {
		e.fatalf("the error says position %d and log start %d, want 4 and 5", pe.Position.Offset, pe.LogStart)
	}
	s.mustBegin(l, 5)
	s.waitNext(l, 20)
	s.want(l, sequence(5, 20))
}

func aboveLogEnd(e *env) {
	e.create(1)
	e.append(0, 0, 20)
	s := e.lanes()
	e.run(s)
	l := s.lane(0)
	err := s.startOnly(l, offsetstore.At(21))
	e.wantPositionError("position 21 of a log that ends at 20", err, framework.ErrAboveLogEnd)
	var pe *framework.PositionError
	if errors.As(err, &pe); pe.LogEnd != 20 {
		e.fatalf("the error says log end %d, want 20", pe.LogEnd)
	}
	s.mustBegin(l, 20)
}

// identity is the topic's as a first start would store it.
func (e *env) identity(l *lane) offsetstore.TopicID {
	e.r.Helper()
	start, err := l.p.Resolve(e.ctx, offsetstore.StartRules{})
	if err != nil || start.TopicID.IsZero() {
		e.fatalf("Resolve returned topic ID %s and %v", start.TopicID, err)
	}
	return start.TopicID
}

func otherTopic(e *env) {
	e.create(1)
	e.append(0, 0, 10)
	s := e.lanes()
	p := e.run(s)
	old := offsetstore.Position{Offset: 3, LeaderEpoch: offsetstore.NoLeaderEpoch, TopicID: e.identity(s.lane(0))}
	if err := s.startOnly(s.lane(0), old); err != nil {
		e.fatalf("Start with the topic's own ID returned %v", err)
	}
	p.end()
	e.harness("Recreate", e.h.Recreate(e.ctx, e.topic, 1))
	e.append(0, 0, 10)
	again := e.lanes()
	e.run(again)
	err := again.startOnly(again.lane(0), old)
	e.wantPositionError("a position of the topic before", err, framework.ErrTopicRecreated)
}

func refusedStaysSilent(e *env) {
	e.create(2)
	e.append(0, 0, 10)
	e.append(1, 0, 10)
	s := e.lanes()
	e.run(s)
	l, other := s.lane(0), s.lane(1)
	s.mustBegin(l, 0)
	s.waitNext(l, 10)
	l.p.Pause()
	e.wantPositionError("position 99", s.startOnly(l, offsetstore.At(99)), framework.ErrAboveLogEnd)
	l.p.Resume()
	e.append(0, 10, 20)
	s.mustBegin(other, 0)
	s.waitNext(other, 10)
	e.letTimePass(s, other, 10)
	s.mustBegin(l, 15)
	s.waitNext(l, 20)
	s.want(l, sequence(15, 20))
}

func retentionWhileReading(e *env) {
	e.create(2)
	e.append(0, 0, 10)
	e.append(1, 0, 10)
	s := e.lanesFrom(0)
	e.run(s)
	l, other := s.lane(0), s.lane(1)
	s.waitNext(l, 10)
	s.waitNext(other, 10)
	l.p.Pause()
	e.append(1, 10, 20)
	s.waitNext(other, 20) // from here on the pause is in effect
	e.append(0, 10, 100)
	e.harness("Retain", e.h.Retain(e.ctx, e.tp(0), 60))
	l.p.Resume()
	s.wait("the failure", func() bool { return l.failed != nil || l.next() > 20 })
	s.mu.Lock()
	failed := l.failed
	s.mu.Unlock()
	if got := s.offsets(l); failed == nil && got[len(got)-1] < 60 {
		return // it had them in memory already; nothing was missed
	}
	e.wantPositionError("retention passed the position", failed, framework.ErrBelowLogStart)
	e.append(1, 20, 30)
	s.waitNext(other, 30)
	s.mustBegin(l, 60)
	s.waitNext(l, 100)
	s.want(l, sequence(60, 100))
}

func recreatedWhileReading(e *env) {
	e.create(1)
	e.append(0, 0, 10)
	s := e.lanes()
	e.run(s)
	l := s.lane(0)
	at := offsetstore.Position{Offset: 0, LeaderEpoch: offsetstore.NoLeaderEpoch, TopicID: e.identity(l)}
	if err := s.begin(l, at); err != nil {
		e.fatalf("Start returned %v", err)
	}
	s.waitNext(l, 10)
	e.harness("Recreate", e.h.Recreate(e.ctx, e.topic, 1))
	s.wait("the failure", func() bool { return l.failed != nil })
	s.mu.Lock()
	failed := l.failed
	s.mu.Unlock()
	e.wantPositionError("the topic was made again", failed, framework.ErrTopicRecreated)
	s.want(l, sequence(0, 10))
}

func resolveEveryPartition(e *env) {
	e.create(5)
	for n := range int32(5) {
		e.append(n, 0, 4)
	}
	s := e.lanes()
	e.run(s)
	rules := offsetstore.StartRules{
		Default: offsetstore.Earliest(),
		Partitions: map[offsetstore.TopicPartition]offsetstore.StartRule{
			e.tp(1): offsetstore.Latest(),
			e.tp(2): offsetstore.Since(timestamp(1).Add(time.Millisecond)),
			e.tp(3): offsetstore.Exact(3),
			e.tp(4): offsetstore.Since(timestamp(99)),
		},
	}
	got, err := s.lane(0).p.Resolve(e.ctx, rules)
	if err != nil {
		e.fatalf("Resolve returned %v", err)
	}
	for n, want := range map[int32]int64{0: 0, 1: 4, 2: 2, 3: 3, 4: 4} {
		if at, ok := got.Starts[n]; !ok || at != want {
			e.errorf("partition %d (%v) resolved to %d (named: %t), want %d", n, rules.For(e.tp(n)), at, ok, want)
		}
	}
	if len(got.Starts) != 5 {
		e.errorf("%d partitions are named, want 5", len(got.Starts))
	}
}
