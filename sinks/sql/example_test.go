package sql_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/sql"
)

// A reading is one row, found by sensor and minute.
type reading struct {
	Sensor string  `db:"sensor,key"`
	Minute int64   `db:"minute,key"`
	Value  float64 `db:"value"`
}

// What a runner does with a sink: claim a partition, save batches, and after a
// restart go on where the saved position says.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "lockstep")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	readings := sql.NewTable[reading]("readings")
	sink, err := sql.Open(ctx, sql.Config{
		DSN:    "sqlite://" + filepath.Join(dir, "app.db"),
		Tables: []sql.AnyTable{readings},
		Schema: []string{`CREATE TABLE IF NOT EXISTS readings (
			sensor TEXT NOT NULL, minute INTEGER NOT NULL, value REAL, PRIMARY KEY (sensor, minute))`},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer sink.Close(ctx)
	if err := sink.Migrate(ctx); err != nil {
		log.Fatal(err)
	}

	tp := offsetstore.TopicPartition{Topic: "sensors", Partition: 0}
	claim, err := sink.Claim(ctx, "minutes", tp, offsetstore.At(0))
	if err != nil {
		log.Fatal(err)
	}
	err = claim.Save(ctx, &framework.Batch[sql.Write]{
		From:   claim.Progress(),
		To:     framework.Progress{Position: offsetstore.At(2)},
		Writes: []sql.Write{readings.Upsert(reading{"a", 1, 20.5}), readings.Upsert(reading{"a", 1, 21})},
	})
	if err != nil {
		log.Fatal(err)
	}

	claim, err = sink.Claim(ctx, "minutes", tp, offsetstore.At(0))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("continue at", claim.Progress().Position.Offset)
	// Output: continue at 2
}
