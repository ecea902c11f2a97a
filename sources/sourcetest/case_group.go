package sourcetest

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

func groupCases() []testCase {
	groups := need{features: Features{Groups: true}}
	return []testCase{{
		name:  "group_shares",
		rule:  "partitions move between the processes of a group without a gap and without two owners at a time",
		needs: groups,
		run:   groupShares,
	}, {
		name:  "group_without_a_share",
		rule:  "a process that its group has no partition for is told so, by an empty Assigned",
		needs: groups,
		run:   groupWithoutAShare,
	}, {
		name:  "group_fresh_assignment",
		rule:  "a partition that comes back is a fresh Partition, and the former one stays dead",
		needs: groups,
		run:   groupFreshAssignment,
	}, {
		name:  "group_revoked_waits",
		rule:  "the next owner is assigned a partition only after Revoked has returned at the former one",
		needs: groups,
		run:   groupRevokedWaits,
	}, {
		name:  "group_cooperative",
		rule:  "partitions that stay where they are in a rebalance are neither revoked nor lost",
		needs: need{features: Features{Groups: true, Cooperative: true}},
		run:   groupCooperative,
	}, {
		name:  "group_eviction",
		rule:  "a member that the group has dropped loses its partitions; Confirm says so, and fresh assignments follow",
		needs: need{evict: true},
		run:   groupEviction,
	}}
}

// pair is two processes of a group, with one sink.
type pair struct {
	e             *env
	st            *store
	first, second *lanes
	other         *process
	partitions    int32
	written       int
}

// newPair starts the first process alone.
func (e *env) newPair(partitions int32) *pair {
	e.r.Helper()
	e.create(partitions)
	st := e.store()
	p := &pair{e: e, st: st, first: st.lanes(), second: st.lanes(), partitions: partitions}
	e.run(p.first)
	p.first.wait("all partitions at the only process", func() bool { return p.first.alive() == int(partitions) })
	return p
}

// read writes to every partition and waits until it is read.
func (p *pair) read() {
	p.e.r.Helper()
	const each = 40
	for n := range p.partitions {
		p.e.append(n, p.written, p.written+each)
	}
	p.written += each
	p.st.wait(p.partitions, int64(p.written), p.first, p.second)
}

// join starts the second process and waits until both have their share.
func (p *pair) join() {
	p.e.r.Helper()
	p.second = p.withHooks()
	p.other = p.e.run(p.second)
	p.second.wait("a share of the partitions at the second process", func() bool { return p.second.alive() > 0 })
	p.e.waitSum(int(p.partitions), p.first, p.second)
}

func (p *pair) withHooks() *lanes {
	l := p.st.lanes()
	l.onRevoked = p.second.onRevoked
	return l
}

// part ends the second process and waits until the first has all.
func (p *pair) part() {
	p.e.r.Helper()
	p.other.end()
	p.first.wait("all partitions back at the first process", func() bool { return p.first.alive() == int(p.partitions) })
}

// waitSum waits until the processes have sum partitions between them, each at
// least one.
func (e *env) waitSum(sum int, among ...*lanes) {
	e.r.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		total, least := 0, sum
		for _, l := range among {
			l.mu.Lock()
			n := l.alive()
			l.mu.Unlock()
			total, least = total+n, min(least, n)
		}
		if total == sum && least > 0 {
			return
		}
		select {
		case <-tick.C:
		case <-e.ctx.Done():
			e.fatalf("%d of %d partitions are assigned, to one process only %d", total, sum, least)
		}
	}
}

func groupShares(e *env) {
	p := e.newPair(4)
	p.read()
	p.join()
	p.read()
	p.part()
	p.read()
	p.join()
	p.read()
	p.st.wantComplete(4, int64(p.written))
}

func groupWithoutAShare(e *env) {
	p := e.newPair(1)
	p.second = p.withHooks()
	p.other = e.run(p.second)
	p.second.wait("a call to Assigned at the second process", func() bool { return p.second.told })
	p.read()
	p.other.end()
	p.read()
	p.st.wantComplete(1, int64(p.written))
}

func groupFreshAssignment(e *env) {
	p := e.newPair(2)
	p.read()
	before := []*lane{p.first.lane(0), p.first.lane(1)}
	p.join()
	p.read()
	var gone *lane
	for _, l := range before {
		p.second.mu.Lock()
		if moved := p.second.current[l.tp]; moved != nil && !moved.dead {
			gone = l
		}
		p.second.mu.Unlock()
	}
	if gone == nil {
		e.fatalf("no partition has moved")
	}
	e.wantDead(gone)
	p.part()
	p.read()
	if back := p.first.lane(gone.tp.Partition); back == gone {
		e.fatalf("%s is back as the value of its former assignment", gone.tp)
	}
	e.wantDead(gone)
	p.st.wantComplete(2, int64(p.written))
}

// wantDead checks what is true of every dead partition. That Resume has no
// effect is checked by the lanes, which are told nothing any more.
func (e *env) wantDead(l *lane) {
	e.r.Helper()
	l.p.Pause()
	l.p.Resume()
	l.p.Mirror(offsetstore.At(0))
	for _, err := range map[string]error{
		"Start":   l.p.Start(e.ctx, offsetstore.At(0)),
		"Confirm": l.p.Confirm(e.ctx),
		"Resolve": func() error { _, err := l.p.Resolve(e.ctx, offsetstore.StartRules{}); return err }(),
	} {
		if !errors.Is(err, framework.ErrNotOwner) {
			e.broken("on a dead partition Start, Resolve and Confirm return ErrNotOwner", "%s: got %v", l.tp, err)
		}
	}
}

func groupRevokedWaits(e *env) {
	p := e.newPair(2)
	p.read()
	p.first.onRevoked = func(ctx context.Context, _ []*lane) {
		// A source that does not wait has the time to show it. One that does is
		// right however long this takes.
		select {
		case <-time.After(300 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	p.join()
	p.read()
	p.st.wantComplete(2, int64(p.written))
}

func groupCooperative(e *env) {
	p := e.newPair(4)
	p.read()
	p.join()
	p.read()
	p.first.mu.Lock()
	defer p.first.mu.Unlock()
	for _, l := range p.first.all {
		if now := p.first.current[l.tp]; now != l {
			e.fatalf("%s stayed at the process, but was taken from it for a while", l.tp)
		}
	}
}

func groupEviction(e *env) {
	e.create(1)
	st := e.store()
	s := st.lanes()
	e.run(s)
	e.append(0, 0, 10)
	st.wait(1, 10, s)
	l := s.lane(0)
	e.harness("Evict", e.h.Evict(e.ctx, e.group))
	if err := l.p.Confirm(e.ctx); !errors.Is(err, framework.ErrNotOwner) {
		e.fatalf("Confirm returned %v after the group has dropped its members", err)
	}
	s.wait("the loss", func() bool { return l.dead })
	e.wantDead(l)
	s.lane(0)
	e.append(0, 10, 20)
	st.wait(1, 20, s)
	st.wantComplete(1, 20)
}
