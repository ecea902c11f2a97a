package positions

import (
	"context"
	"fmt"
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
)

// These names are alike to whoever drops or replaces what is neither letter nor digit,
// or does not tell upper from lower case. Kafka itself refuses topics that differ in
// nothing but '.' and '_'.
var (
	likeNames  = []string{"a-b", "ab", "a_b", "a.b", "A-B"}
	likeTopics = []string{"a-b", "ab", "a_b", "A.b"}
)

// Each pipeline reads each topic, comes to a standstill at offsets of its own, and
// goes on from exactly these, beside the others. Each of its records has a key of its
// own, so that state which went astray would show.
func TestNamesThatLookAlikeShareNothing(t *testing.T) {
	topics := map[string]int32{}
	for _, topic := range likeTopics {
		topics[topic] = 2
	}
	onBed(t, topics, func(b *bed) {
		produce := func(round int) {
			for i, topic := range likeTopics {
				for p := range int32(2) {
					tp := part{Topic: topic, Partition: p}
					for range 1 + i + int(p) {
						b.produce(tp, add("k", 1), add(fmt.Sprint(tp), round))
					}
				}
			}
		}
		for round, name := range likeNames {
			produce(round + 1)
			p := b.start(program{name: name, topics: likeTopics})
			b.awaitAll(name, likeTopics...)
			p.stop()
			for _, earlier := range likeNames[:round+1] {
				b.requireStoodStill(earlier, name)
			}
		}
		produce(len(likeNames) + 1)
		var together []*process
		for _, name := range likeNames {
			together = append(together, b.start(program{name: name, topics: likeTopics}))
		}
		for i, name := range likeNames {
			b.awaitAll(name, likeTopics...)
			together[i].stop()
			b.expectAll(name, nil, likeTopics...)
			for tp, lines := range b.log {
				if got := b.groupOffset(name, tp); got != end(lines) {
					t.Errorf("group %q is at %d in %s, want %d", name, got, tp, end(lines))
				}
			}
		}
	})
}

// requireStoodStill says that a pipeline's progress is behind that of the one that
// has just run to the end of the log, unless it is the same.
func (b *bed) requireStoodStill(pipeline, ran string) {
	b.t.Helper()
	for tp, lines := range b.log {
		at := b.position(pipeline, tp)
		if (at == end(lines)) != (pipeline == ran) {
			b.t.Errorf("after a run of %q, %q is at %d of %d in %s", ran, pipeline, at, end(lines), tp)
		}
		b.expect(pipeline, tp, model(tp, until(lines, at), at))
	}
}

// One topic is done and the other is not when the process is killed: what was done of
// one says nothing about the other's equal partition and offsets.
func TestEqualPartitionsOfTwoTopicsAreKeptApart(t *testing.T) {
	users, orders := part{Topic: "users"}, part{Topic: "orders"}
	onBed(t, map[string]int32{"users": 1, "orders": 1}, func(b *bed) {
		b.produce(users, ones("u", 2)...)
		b.produce(orders, ones("o", 2)...)
		p := program{name: "p", topics: []string{"users", "orders"}, config: framework.Config{BatchRecords: 1}}
		killer := p
		killer.sink.Hooks.BeforeSave = func(ctx context.Context, _ string, tp part, batch *framework.Batch[row]) error {
			if tp == orders && batch.From.Position.Offset == 1 {
				<-ctx.Done() // the kill
				return context.Cause(ctx)
			}
			return nil
		}
		first := b.start(killer)
		b.awaitSaved("p", users, 2)
		b.awaitSaved("p", orders, 1)
		first.kill()
		b.awaitNoMembers("p")
		b.expect("p", users, model(users, b.log[users], 2))
		b.expect("p", orders, model(orders, until(b.log[orders], 1), 1))

		second := b.start(p)
		b.awaitAll("p", "users", "orders")
		second.stop()
		b.expectAll("p", nil, "users", "orders")
	})
}
