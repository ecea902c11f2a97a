package memory_test

import (
	"context"
	"fmt"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/memory"
)

// A store outlives the sinks opened on it, so a restart is another Open.
func ExampleStore_Open() {
	ctx := context.Background()
	store := memory.NewStore[memory.Row]()
	tp := offsetstore.TopicPartition{Topic: "orders", Partition: 0}

	first := store.Open(memory.Options[memory.Row]{})
	claim, _ := first.Claim(ctx, "totals", tp, offsetstore.At(0))
	_ = claim.Save(ctx, &framework.Batch[memory.Row]{
		From:   framework.Progress{Position: offsetstore.At(0)},
		To:     framework.Progress{Position: offsetstore.At(2)},
		Writes: []memory.Row{{Table: "totals", Key: "tea", Value: 3}},
	})
	_ = first.Close(ctx)

	second := store.Open(memory.Options[memory.Row]{})
	claim, _ = second.Claim(ctx, "totals", tp, offsetstore.At(0))
	fmt.Println("continue at", claim.Progress().Position.Offset, "with", memory.Rows(store, "totals"))
	// Output: continue at 2 with map[tea:3]
}
