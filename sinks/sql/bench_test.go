package sql_test

import (
	"fmt"
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/sinks/sql"
)

// BenchmarkSave saves batches of 5,000 rows, encoding included, as a lane does.
func BenchmarkSave(b *testing.B) {
	const rows = 5000
	for _, synchronous := range []string{"full", "normal"} {
		b.Run("insert/"+synchronous, func(b *testing.B) {
			s := openEvents(b, newPath(b), "?synchronous="+synchronous)
			c := claimLane(b, s, 0)
			at := int64(0)
			for b.Loop() {
				if err := c.Save(b.Context(), eventBatch(0, at, at+rows)); err != nil {
					b.Fatal(err)
				}
				at += rows
			}
			b.ReportMetric(float64(at)/b.Elapsed().Seconds(), "rows/s")
		})
	}
	b.Run("upsert/full", func(b *testing.B) {
		s := openEvents(b, newPath(b), "")
		c := claimLane(b, s, 0)
		at := int64(0)
		for b.Loop() {
			batch := eventBatch(0, at, at+rows)
			for i := range batch.Writes {
				batch.Writes[i] = events.Upsert(event{Offset: int64(i * 7 % rows), Source: "source-17"})
			}
			if err := c.Save(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
			at += rows
		}
		b.ReportMetric(float64(at)/b.Elapsed().Seconds(), "rows/s")
	})
	b.Run("state/full", func(b *testing.B) {
		s := openEvents(b, newPath(b), "")
		c := claimLane(b, s, 0)
		at := int64(0)
		for b.Loop() {
			batch := eventBatch(0, at, at)
			batch.To.Position.Offset += rows
			for i := range rows {
				key := framework.StateKey{Operator: "sum", Key: fmt.Appendf(nil, "key %d", i*7%rows)}
				batch.State = append(batch.State, framework.StateEntry{StateKey: key, Value: []byte("12345678")})
			}
			if err := c.Save(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
			at += rows
		}
		b.ReportMetric(float64(at)/b.Elapsed().Seconds(), "entries/s")
	})
}

// BenchmarkLoad loads the state of 5,000 keys, as many as a batch may touch.
func BenchmarkLoad(b *testing.B) {
	const keys = 5000
	s := openEvents(b, newPath(b), "")
	c := claimLane(b, s, 0)
	batch := eventBatch(0, 0, 0)
	asked := make([]framework.StateKey, keys)
	for i := range keys {
		asked[i] = framework.StateKey{Operator: "sum", Key: fmt.Appendf(nil, "key %d", i)}
		batch.State = append(batch.State, framework.StateEntry{StateKey: asked[i], Value: []byte("12345678")})
	}
	if err := c.Save(b.Context(), batch); err != nil {
		b.Fatal(err)
	}
	n := 0
	for b.Loop() {
		if _, err := c.Load(b.Context(), asked); err != nil {
			b.Fatal(err)
		}
		n += keys
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "keys/s")
}

// BenchmarkWrite encodes one row.
func BenchmarkWrite(b *testing.B) {
	b.ReportAllocs()
	var w sql.Write
	for b.Loop() {
		w = events.Insert(event{Partition: 3, Offset: 12345, Source: "source-17", Health: 9})
	}
	_ = w
}
