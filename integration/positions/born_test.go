package positions

import (
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// latestOf is a program that begins at the end of the topic.
func latestOf(hooks framework.Hooks) program {
	return program{name: "p", topics: []string{"in"}, config: framework.Config{
		Hooks: hooks,
		Start: offsetstore.StartRules{Default: offsetstore.Latest()},
	}}
}

// Producers use a new partition before the group knows it.
func TestAPartitionAddedWhileRunningLosesNothingUnderLatest(t *testing.T) {
	onBed(t, map[string]int32{"in": 1}, func(b *bed) {
		b.produce(in0, add("old", 1), add("old", 1))
		p := b.start(latestOf(framework.Hooks{}))
		b.awaitSaved("p", in0, 2)
		b.produce(in0, add("x", 1))
		b.awaitSaved("p", in0, 3)

		b.addPartition(in1)
		b.produce(in1, add("x", 1), add("x", 1))
		if got := b.position("p", in1); got != -1 {
			t.Fatalf("the pipeline stands at %d in the new partition already", got)
		}
		b.awaitSaved("p", in1, 2)
		p.stop()
		b.expectAll("p", map[part]int64{in0: 2}, "in")

		b.addPartition(in2) // while nobody runs
		b.produce(in2, add("y", 1))
		p = b.start(latestOf(framework.Hooks{}))
		b.awaitSaved("p", in2, 1)
		p.stop()
		b.expectAll("p", map[part]int64{in0: 2}, "in")
	})
}

// The process that noticed the partition dies when it has claimed it and read
// nothing; more is produced before the next one looks.
func TestAPartitionWhoseFirstOwnerDiesLosesNothingUnderLatest(t *testing.T) {
	onBed(t, map[string]int32{"in": 1}, func(b *bed) {
		b.produce(in0, add("old", 1))
		var first *process
		first = b.start(latestOf(framework.Hooks{Reached: func(e framework.PointEvent) {
			if e.Point == framework.PointClaim && e.TopicPartition == in1 {
				first.kill()
			}
		}}))
		b.awaitSaved("p", in0, 1)
		b.addPartition(in1)
		b.produce(in1, ones("x", 3)...)
		b.await("the kill", first.ended)
		b.awaitNoMembers("p")
		if got := b.position("p", in1); got != 0 {
			t.Fatalf("the claim was made at %d, want 0", got)
		}
		b.produce(in1, ones("x", 2)...)
		second := b.start(latestOf(framework.Hooks{}))
		b.awaitSaved("p", in1, 5)
		second.stop()
		b.expectAll("p", map[part]int64{in0: 1}, "in")
	})
}

// A process that joins later asks the topic's starts anew, and must be told the old
// ones.
func TestAPartitionAddedBeforeASecondProcessLosesNothingUnderLatest(t *testing.T) {
	onBed(t, map[string]int32{"in": 1}, func(b *bed) {
		b.produce(in0, add("old", 1))
		first := b.start(latestOf(framework.Hooks{}))
		b.awaitSaved("p", in0, 1)
		b.addPartition(in1)
		b.addPartition(in2)
		b.produce(in1, ones("x", 3)...)
		b.produce(in2, ones("x", 4)...)
		second := b.start(latestOf(framework.Hooks{}))
		b.awaitAll("p", "in")
		b.await("they share the partitions", func() bool {
			return len(first.runner.Lanes()) > 0 && len(second.runner.Lanes()) > 0
		})
		first.stop()
		second.stop()
		b.expectAll("p", map[part]int64{in0: 1}, "in")
	})
}
