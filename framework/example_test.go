package framework_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/codec"
	"github.com/lockstep-stream/lockstep/framework/frameworktest"
	"github.com/lockstep-stream/lockstep/sinks/memory"
)

// A pipeline counts words, and a test of it needs no server: a log in memory
// plays Kafka, and the reference sink the database.
func Example() {
	type count = framework.Keyed[string, int64]
	words := framework.Map(framework.From(codec.String()), func(w string) count { return count{Key: w, Value: 1} })
	counts := framework.ReduceByKey("words", words, func(a, b int64) int64 { return a + b })
	rows := framework.MapErr(counts, func(ctx framework.Context, c count) (memory.Row, error) {
		return memory.Row{Table: "counts", Key: fmt.Sprint(c.Key, " in partition ", ctx.Partition()), Value: c.Value}, nil
	})
	pipeline, err := framework.NewPipeline("words", rows)
	if err != nil {
		fmt.Println(err)
		return
	}

	log := frameworktest.NewLog()
	log.Produce("text", 0, "to", "be", "or", "not", "to", "be")
	log.Produce("text", 1, "be")
	store := memory.NewStore[memory.Row]()
	runner, err := framework.NewRunner(pipeline, frameworktest.NewSource(log), store.Open(memory.Options[memory.Row]{}),
		framework.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := frameworktest.RunUntilSaved(context.Background(), runner, log); err != nil {
		fmt.Println(err)
		return
	}
	table := memory.Rows(store, "counts")
	for _, key := range slices.Sorted(maps.Keys(table)) {
		fmt.Println(key, table[key])
	}
	// Output:
	// be in partition 0 2
	// be in partition 1 1
	// not in partition 0 1
	// or in partition 0 1
	// to in partition 0 2
}
