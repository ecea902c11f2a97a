package positions

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lockstep-stream/lockstep/framework"
)

// A key that is on two partitions has two totals, of which each moves with its
// partition. What a reader adds up stays right through every move.
func TestAKeyOnTwoPartitionsKeepsItsTotalWhileOneMoves(t *testing.T) {
	onBed(t, map[string]int32{"in": 2}, func(b *bed) {
		p := program{name: "p", topics: []string{"in"}}
		first := b.start(p)
		b.produce(in0, add("a", 1))
		b.produce(in1, add("a", 2), add("b", 5))
		b.awaitAll("p", "in")
		b.requireTotals(map[string]int{"a": 3, "b": 5})

		second := b.start(p)
		b.produce(in0, add("a", 10)) // while it joins
		b.produce(in1, add("a", 20))
		b.await("each has one", func() bool { return len(first.runner.Lanes()) == 1 && len(second.runner.Lanes()) == 1 })
		b.produce(in0, add("a", 100))
		b.produce(in1, add("a", 200), add("b", 50))
		b.awaitAll("p", "in")
		b.requireTotals(map[string]int{"a": 333, "b": 55})

		second.stop() // its partition moves back
		b.produce(in0, add("a", 1000))
		b.produce(in1, add("a", 2000), add("b", 500))
		b.awaitAll("p", "in")
		first.stop()
		b.requireTotals(map[string]int{"a": 3333, "b": 555})
		b.expectAll("p", nil, "in")
	})
}

// The group has dropped the owner of a partition, which does not know it while its
// save hangs. The other process takes over and goes on; then the late save arrives,
// and is refused.
func TestALateSaveOfAFormerOwnerChangesNoTotal(t *testing.T) {
	onBed(t, map[string]int32{"in": 2}, func(b *bed) {
		p := program{name: "p", topics: []string{"in"}}
		first := b.start(p)
		b.produce(in0, add("a", 1))
		b.produce(in1, add("a", 2))
		b.awaitAll("p", "in")

		held, arrive := make(chan part, 10), make(chan struct{})
		slow := p
		slow.sink.Hooks.BeforeSave = func(_ context.Context, _ string, tp part, _ *framework.Batch[row]) error {
			held <- tp
			<-arrive
			return nil
		}
		second := b.start(slow)
		b.await("each has one", func() bool { return len(first.runner.Lanes()) == 1 && len(second.runner.Lanes()) == 1 })
		moved := second.runner.Lanes()[0].TopicPartition
		b.produce(in0, add("a", 10), add("b", 1))
		b.produce(in1, add("a", 20), add("b", 2))
		if tp := <-held; tp != moved {
			t.Fatalf("the save of %s hangs, and %s moved", tp, moved)
		}
		enlighten := b.dropUnnoticed("p", moved)
		b.awaitAll("p", "in") // by the first
		b.produce(in0, add("a", 100))
		b.produce(in1, add("a", 200))
		b.awaitAll("p", "in")
		close(arrive)
		enlighten()
		b.await("each has one again", func() bool { return len(first.runner.Lanes()) == 1 && len(second.runner.Lanes()) == 1 })
		b.produce(in0, add("a", 1000))
		b.produce(in1, add("a", 2000))
		b.awaitAll("p", "in")
		first.stop()
		second.stop()
		b.requireTotals(map[string]int{"a": 3333, "b": 3})
		b.expectAll("p", nil, "in")
	})
}

// dropUnnoticed removes the member that has a partition from the group. Its heartbeats
// are answered as before, until the returned function is called.
func (b *bed) dropUnnoticed(group string, tp part) (enlighten func()) {
	b.t.Helper()
	var id string
	for _, m := range b.cluster.GroupInfo(group).Members {
		if slices.Contains(m.Assignment[tp.Topic], tp.Partition) {
			id = m.MemberID
		}
	}
	var over atomic.Bool
	b.cluster.ControlKey(int16(kmsg.Heartbeat), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		if over.Load() || r.(*kmsg.HeartbeatRequest).MemberID != id {
			return nil, nil, false
		}
		return r.ResponseKind(), nil, true
	})
	b.evict(group, id)
	return func() { over.Store(true) }
}

// While a partition moves in order, the save in flight is waited for: the next owner
// reads its totals and does nothing again.
func TestAMoveWaitsForTheSaveInFlight(t *testing.T) {
	onBed(t, map[string]int32{"in": 2}, func(b *bed) {
		p := program{name: "p", topics: []string{"in"}}
		slow := p
		slow.sink.Hooks.BeforeSave = func(ctx context.Context, _ string, _ part, _ *framework.Batch[row]) error {
			select {
			case <-time.After(3 * time.Second): // less than a rebalance may take
				return nil
			case <-ctx.Done():
				return &framework.SaveError{Outcome: framework.NotSaved, Err: errors.New("cancelled")}
			}
		}
		first := b.start(slow)
		b.awaitSaved("p", in0, 0)
		b.awaitSaved("p", in1, 0)
		b.produce(in0, add("a", 1))
		b.produce(in1, add("a", 2))
		second := b.start(p)
		b.await("each has one", func() bool { return len(first.runner.Lanes()) == 1 && len(second.runner.Lanes()) == 1 })
		b.produce(in0, add("a", 10))
		b.produce(in1, add("a", 20))
		b.awaitAll("p", "in")
		first.stop()
		second.stop()
		b.requireTotals(map[string]int{"a": 33})
		b.expectAll("p", nil, "in")
	})
}

// requireTotals compares what a reader sees: totals added up over the partitions.
func (b *bed) requireTotals(want map[string]int) {
	b.t.Helper()
	got := map[string]int{}
	for _, tp := range []part{in0, in1} {
		for key, n := range b.stored("p", tp).Totals {
			got[key] += n
		}
	}
	for key := range want {
		if got[key] != want[key] {
			b.t.Errorf("the total of %q is %d, want %d", key, got[key], want[key])
		}
	}
}
