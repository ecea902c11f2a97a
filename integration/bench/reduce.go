package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/examples/exactlyonce/app"
	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/codec"
	"github.com/lockstep-stream/lockstep/sinks/memory"
)

// reduceBound is the least rate of the pipeline, as a share of the bare loop's.
const reduceBound = 0.6

// loopFloor is the least rate of the bare loop, in records a second on two cores
// shared with the broker: a slow loop would make any ratio look good.
const loopFloor = 1_000_000

type count = framework.Keyed[string, int64]

// counting is filter, map and reduceByKey: events by client.
func counting[W any](name string, write func(topic string, partition int32, c count) W) (*framework.Pipeline[W], error) {
	events := framework.Filter(framework.From(codec.JSON[app.Event]()), func(e app.Event) bool { return e.Health >= 0 })
	ones := framework.Map(events, func(e app.Event) count { return count{Key: e.Client, Value: 1} })
	counts := framework.ReduceByKey("by-client", ones, func(a, b int64) int64 { return a + b },
		framework.KeyCodec[string, int64](codec.String()), framework.StateCodec[string](codec.Int64()))
	return framework.NewPipeline(name, framework.MapErr(counts, func(ctx framework.Context, c count) (W, error) {
		return write(ctx.Topic(), ctx.Partition(), c), nil
	}))
}

func benchReduce(ctx context.Context, o options, r *report) error {
	topic, err := newTopic(ctx, o, o.records)
	if err != nil {
		return err
	}
	cassandra, done, err := countsInCassandra(ctx, o)
	if err != nil {
		return err
	}
	defer done()
	return compare(r, "reduce", o.records, o.rounds, []side{
		{"bare loop, no guarantee", loopFloor, func() (time.Duration, error) { return loop(ctx, o, topic) }},
		{"pipeline, memory sink", reduceBound, func() (time.Duration, error) { return reduceInMemory(ctx, o, topic) }},
		{"pipeline, Cassandra sink", 0, func() (time.Duration, error) { return cassandra(topic) }},
	})
}

// loop is what one would write by hand without any guarantee.
func loop(ctx context.Context, o options, topic string) (time.Duration, error) {
	began := time.Now()
	decoder := codec.JSON[app.Event]()
	counts := map[string]int64{}
	err := consume(ctx, o, topic, o.records, func(r *kgo.Record) error {
		var e app.Event
		if err := decoder.Decode(r.Value, &e); err != nil {
			return err
		}
		if e.Health >= 0 {
			counts[e.Client]++
		}
		return nil
	})
	took := time.Since(began)
	return took, checkTotal(counts, o.records, err)
}

func reduceInMemory(ctx context.Context, o options, topic string) (time.Duration, error) {
	p, err := counting("bench-reduce", func(_ string, partition int32, c count) memory.Row {
		return memory.Row{Table: "counts", Key: fmt.Sprint(partition, c.Key), Value: c.Value}
	})
	if err != nil {
		return 0, err
	}
	store := memory.NewStoreKeeping[memory.Row](memory.KeepCounts)
	took, err := runUntil(ctx, o, topic, o.records, p, store.Open(memory.Options[memory.Row]{}))
	counts := map[string]int64{}
	for key, n := range memory.Rows(store, "counts") {
		counts[key] = n.(int64)
	}
	return took, checkTotal(counts, o.records, err)
}

func checkTotal(counts map[string]int64, want int, err error) error {
	total := int64(0)
	for _, n := range counts {
		total += n
	}
	if err == nil && total != int64(want) {
		err = fmt.Errorf("counted %d records of %d", total, want)
	}
	return err
}
