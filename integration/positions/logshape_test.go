package positions

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/framework"
)

// The position, and what surrounds it, was removed by compaction.
func TestAPositionThatCompactionRemovedReadsOn(t *testing.T) {
	onBed(t, nil, func(b *bed) {
		// Small segments, as only closed ones are compacted.
		b.create("in", 1, map[string]string{"cleanup.policy": "compact", "segment.bytes": "300", "min.cleanable.dirty.ratio": "0.01"})
		// The in-process Kafka moves the log's start over what it compacts there.
		b.produceKeyed(in0, "first", add("first", 1))
		for i := range 9 {
			b.produceKeyed(in0, "hot", add("hot", i))
		}
		p := program{name: "p", topics: []string{"in"}}
		first := b.start(p)
		b.awaitSaved("p", in0, 10)
		first.stop()

		for i := range 20 {
			b.produceKeyed(in0, "hot", add("hot", i))
		}
		b.produceKeyed(in0, "last", add("last", 1))
		b.cluster.Compact()
		left := b.readBack(in0, 31)
		if since(left, 10)[0].offset == 10 || left[0].offset != 0 {
			t.Fatalf("compaction left %v, and should have removed 10 and kept 0", left)
		}
		want := append(until(b.log[in0], 10), since(left, 10)...)
		second := b.start(p)
		b.awaitSaved("p", in0, 31)
		second.stop()
		b.expect("p", in0, model(in0, want, 31))
		third := b.start(p) // and once more from there
		b.produce(in0, add("hot", 1))
		b.awaitSaved("p", in0, 32)
		third.stop()
		b.expect("p", in0, model(in0, append(want, since(b.log[in0], 31)...), 32))
	})
}

// readBack returns what the log still holds below end.
func (b *bed) readBack(tp part, end int64) (left []line) {
	b.t.Helper()
	cl := b.newClient(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{tp.Topic: {tp.Partition: kgo.NewOffset().AtStart()}}))
	defer cl.Close()
	for len(left) == 0 || left[len(left)-1].offset < end-1 {
		fetches := cl.PollFetches(b.t.Context())
		if err := fetches.Err(); err != nil {
			b.t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { left = append(left, line{r.Offset, string(r.Value)}) })
	}
	return left
}

// Ten records, three done: retention removes some while nobody runs.
func TestRetentionIsAFaultOnlyPastThePosition(t *testing.T) {
	for start := range int64(11) {
		t.Run(fmt.Sprint(start), func(t *testing.T) {
			onBed(t, map[string]int32{"in": 1}, func(b *bed) {
				p := program{name: "p", topics: []string{"in"}}
				b.produce(in0, ones("a", 3)...)
				first := b.start(p)
				b.awaitSaved("p", in0, 3)
				first.stop()
				b.produce(in0, ones("a", 7)...)
				b.removeBefore(in0, start)

				second := b.start(p)
				if start > 3 {
					b.requirePositionError(second.failed(), framework.ErrBelowLogStart, start, 10,
						fmt.Sprintf("position 3, available %d..10", start), fmt.Sprintf("(%d offsets)", start-3), "Config.BelowLogStart")
					b.expect("p", in0, model(in0, until(b.log[in0], 3), 3))
					b.requireGoesOnWithout(p, start)
					return
				}
				b.awaitSaved("p", in0, 10)
				second.stop()
				b.expectAll("p", nil, "in")
			})
		})
	}
}

// requireGoesOnWithout: a policy goes on with what there is, and counts the rest as
// lost.
func (b *bed) requireGoesOnWithout(p program, start int64) {
	b.t.Helper()
	p.config.BelowLogStart = framework.PositionEarliest
	again := b.start(p)
	b.awaitSaved("p", in0, 10)
	again.stop()
	want := model(in0, append(until(b.log[in0], 3), since(b.log[in0], start)...), 10)
	want.Counters.Lost = start - 3
	b.expect("p", in0, want)
}

// The partition is paused, since its save hangs, when retention overtakes it. What
// was read by then is saved, nothing behind the gap is.
func TestRetentionThatOvertakesARunningPipelineStopsIt(t *testing.T) {
	onBed(t, map[string]int32{"in": 1}, func(b *bed) {
		held, release := make(chan struct{}, 100), make(chan struct{})
		p := program{name: "p", topics: []string{"in"}, config: framework.Config{BatchRecords: 1, BufferBytes: 1}}
		p.sink.Hooks.BeforeSave = func(context.Context, string, part, *framework.Batch[row]) error {
			held <- struct{}{}
			<-release
			return nil
		}
		b.produce(in0, ones("a", 3)...)
		proc := b.start(p)
		<-held
		b.produce(in0, ones("a", 100)...)
		b.removeBefore(in0, 90)
		close(release)
		err := proc.failed()
		at := b.position("p", in0)
		if at < 3 || at >= 90 {
			t.Errorf("stopped at %d, want a position from 3 to below 90", at)
		}
		b.requirePositionError(err, framework.ErrBelowLogStart, 90, 103, fmt.Sprintf("position %d, available 90..103", at))
		b.expect("p", in0, model(in0, until(b.log[in0], at), at))
	})
}

// requirePositionError: the error says which condition, with what is known of the
// log, and its text holds all that is in texts.
func (b *bed) requirePositionError(err, condition error, start, end int64, texts ...string) {
	b.t.Helper()
	var position *framework.PositionError
	if !errors.Is(err, condition) || !errors.As(err, &position) {
		b.t.Fatalf("failed with %v, want a *PositionError that matches %v", err, condition)
	}
	if position.TopicPartition != in0 || position.LogStart != start || position.LogEnd != end {
		b.t.Errorf("the error is about %s %d..%d, want %s %d..%d", position.TopicPartition, position.LogStart, position.LogEnd, in0, start, end)
	}
	for _, text := range append(texts, `pipeline "p"`, in0.String()) {
		if !strings.Contains(err.Error(), text) {
			b.t.Errorf("%q does not say %q", err, text)
		}
	}
}
