package sourcetest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

func stopCases() []testCase {
	return []testCase{{
		name: "stop_and_restart",
		rule: "a new source goes on where the sink says, without a gap",
		run:  stopAndRestart,
	}, {
		name: "stop_ends_partitions",
		rule: "after Run has returned every partition is dead",
		run: func(e *env) {
			e.create(2)
			e.append(0, 0, 10)
			e.append(1, 0, 10)
			s := e.store().lanes()
			p := e.run(s)
			a, b := s.lane(0), s.lane(1)
			s.waitNext(a, 10)
			p.end()
			e.wantDead(a)
			e.wantDead(b)
		},
	}, {
		name: "stop_while_paused",
		rule: "Run ends when it is cancelled while every partition is paused with a backlog",
		run: func(e *env) {
			e.create(2)
			e.append(0, 0, 500)
			e.append(1, 0, 500)
			s := e.lanesFrom(0)
			s.onRecords = func(l *lane, _ []framework.Record) { l.p.Pause() }
			p := e.run(s)
			s.waitNext(s.lane(0), 1)
			s.waitNext(s.lane(1), 1)
			p.end()
		},
	}, {
		name: "stop_while_unstarted",
		rule: "Run ends when it is cancelled while no partition was started",
		run: func(e *env) {
			e.create(1)
			e.append(0, 0, 10)
			s := e.lanes()
			p := e.run(s)
			s.lane(0)
			p.end()
		},
	}, {
		name: "stop_while_starting",
		rule: "a Start or Confirm that is under way when Run is cancelled returns",
		run:  stopWhileStarting,
	}, {
		name: "stop_waits_for_lanes",
		rule: "a source that is cancelled revokes its partitions, and is still their owner until Revoked has returned",
		run:  stopWaitsForLanes,
	}, {
		name: "stop_at_once",
		rule: "Run with a context that has ended returns nil, and nothing of it goes on",
		run: func(e *env) {
			e.create(1)
			ctx, cancel := context.WithCancel(e.ctx)
			cancel()
			s := e.lanes()
			if err := e.open().Run(ctx, s); err != nil {
				e.fatalf("Run returned %v", err)
			}
			s.end()
		},
	}, {
		name: "run_once",
		rule: "a source runs once: a second Run returns an error",
		run: func(e *env) {
			e.create(1)
			e.append(0, 0, 1)
			s := e.store().lanes()
			p := e.run(s)
			s.lane(0)
			p.end()
			if err := p.src.Run(e.ctx, e.lanes()); err == nil {
				e.fatalf("the second Run returned nil")
			}
		},
	}}
}

func stopAndRestart(e *env) {
	const partitions, records, runs = 2, 200, 4
	e.create(partitions)
	for n := range int32(partitions) {
		e.append(n, 0, records)
	}
	st := e.store()
	for i := range runs {
		s := st.lanes()
		p := e.run(s)
		st.wait(partitions, int64(records*(i+1)/runs), s)
		p.end()
	}
	st.wantComplete(partitions, records)
}

func stopWhileStarting(e *env) {
	e.create(1)
	e.append(0, 0, 10)
	s := e.lanes()
	s.unsaved = true // or a source that cannot seek would have nothing left at 0
	var delivered atomic.Bool
	s.onRecords = func(*lane, []framework.Record) { delivered.Store(true) }
	p := e.run(s)
	l := s.lane(0)
	s.starters.Go(func() {
		for e.ctx.Err() == nil {
			if err := s.begin(l, offsetstore.At(0)); err != nil {
				return
			}
			if err := l.p.Confirm(e.ctx); err != nil {
				return
			}
			l.p.Pause()
			time.Sleep(time.Millisecond) // a source that hangs would be asked without end
		}
	})
	s.wait("a delivery between two starts", func() bool { return delivered.Load() || l.startErr != nil })
	p.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.startErr != nil && !errors.Is(l.startErr, framework.ErrNotOwner) {
		e.fatalf("Start returned %v, want nil or ErrNotOwner", l.startErr)
	}
}

func stopWaitsForLanes(e *env) {
	e.create(1)
	e.append(0, 0, 10)
	s := e.store().lanes()
	revoked := false
	s.onRevoked = func(_ context.Context, ls []*lane) {
		revoked = true
		for _, l := range ls {
			l.p.Mirror(offsetstore.At(10))
		}
	}
	p := e.run(s)
	s.waitNext(s.lane(0), 10)
	p.end()
	if !revoked {
		e.fatalf("Run returned without a call to Revoked")
	}
}
