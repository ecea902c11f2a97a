package cassandra

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// reading of a typical pipeline: nine columns, about 85 bytes.
type generatedRow struct {
	Topic     string `cql:"topic,partition"`
	Partition int32  `cql:"partition,partition"`
	Bucket    int64  `cql:"bucket,partition"`
	Offset    int64  `cql:"offset,clustering"`
	ID        int64
	TS        time.Time
	Source    string
	Client    string
	Health    *int32
}

var benchTable = NewTable[generatedRow]("events")

func generatedRows(n int) []generatedRow {
	r := rand.New(rand.NewPCG(1, 2))
	rows := make([]generatedRow, n)
	for i := range rows {
		health := int32(r.IntN(100))
		rows[i] = generatedRow{
			Topic: "events", Partition: 3, Bucket: int64(i / 1000), Offset: int64(i), ID: r.Int64(), TS: time.UnixMilli(1_700_000_000_000 + int64(i)*3),
			Source: fmt.Sprintf("host-%d.example", r.IntN(500)), Client: fmt.Sprintf("client-%d", r.IntN(10_000)), Health: &health,
		}
	}
	return rows
}

func benchWrites(n int) []Write {
	ws := make([]Write, n)
	for i, r := range generatedRows(n) {
		ws[i] = benchTable.Insert(r)
	}
	return ws
}

func BenchmarkInsert(b *testing.B) {
	rows := generatedRows(1000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		w := benchTable.Insert(rows[i%len(rows)])
		if w.err != nil {
			b.Fatal(w.err)
		}
		i++
	}
}

// perRow reports the time of one row of a benchmark over n.
func perRow(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/row")
}

func BenchmarkEncodeBlob(b *testing.B) {
	ws, tables := benchWrites(5000), openTables{}
	b.ReportAllocs()
	size := 0
	for b.Loop() {
		blob, _, err := encodeBlob(ws, 1_700_000_000_000_000, tables, testLimits)
		if err != nil {
			b.Fatal(err)
		}
		size = blob.bytes
	}
	perRow(b, len(ws))
	b.ReportMetric(float64(size)/float64(len(ws)), "B/row")
}

func BenchmarkDecodeBlob(b *testing.B) {
	ws, tables := benchWrites(5000), openTables{}
	blob, _, err := encodeBlob(ws, 1_700_000_000_000_000, tables, testLimits)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeBlob(b.Context(), blob.chunks, blob.sum, tables); err != nil {
			b.Fatal(err)
		}
	}
	perRow(b, len(ws))
}

func BenchmarkEntries(b *testing.B) {
	_, ms, err := encodeBlob(benchWrites(200), 1_700_000_000_000_000, openTables{}, testLimits)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		entries(ms, time.Unix(1, 0))
	}
	perRow(b, len(ms))
}

// TestEncodingARowAllocatesNothing leaves one allocation for a row: its bytes.
func TestEncodingARowAllocatesNothing(t *testing.T) {
	s := newScratch[generatedRow](benchTable.plan)
	s.buf = make([]byte, 0, 1024)
	s.value = generatedRows(1)[0]
	n := testing.AllocsPerRun(100, func() {
		if _, err := benchTable.plan.encode(s.buf, s.fields, opInsert); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
