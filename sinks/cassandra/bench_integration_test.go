//go:build integration

package cassandra

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gocql/gocql"
	"golang.org/x/sync/errgroup"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/integration/servers"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// eventRow is a row of about 120 bytes, in partitions of bounded size.
type eventRow struct {
	Topic     string `cql:"topic,partition"`
	Partition int32  `cql:"partition,partition"`
	Bucket    int64  `cql:"bucket,partition"`
	Offset    int64  `cql:"offset,clustering"`
	Source    string `cql:"source"`
	Health    int32  `cql:"health"`
	Time      int64  `cql:"time"`
	Message   string `cql:"message"`
}

var eventRows = NewTable[eventRow]("events")

const (
	eventsSchema = "CREATE TABLE IF NOT EXISTS events (topic text, partition int, bucket bigint, offset bigint, source text, health int, time bigint, message text, PRIMARY KEY ((topic, partition, bucket), offset))"
	benchLanes   = 4
	benchRows    = 5000 // of one batch
	benchTurn    = 4    // batches of each lane
	benchBucket  = 10_000
)

func benchEvent(lane int, offset int64) eventRow {
	return eventRow{
		Topic: "bench", Partition: int32(lane), Bucket: offset / benchBucket, Offset: offset,
		Source: fmt.Sprintf("sensor-%d", offset%997), Health: int32(offset % 100), Time: 1_700_000_000_000 + offset,
		Message: fmt.Sprintf("reading %d of the lane, with some text that says what was measured", offset),
	}
}

func benchConfig(b *testing.B) Config {
	b.Helper()
	cfg := Config{
		Hosts: []string{servers.Cassandra(b)}, Keyspace: fmt.Sprintf("b_%016x", rand.Uint64()), Replication: "1",
		Schema: []string{eventsSchema}, Tables: []AnyTable{eventRows}, Logger: slog.New(slog.DiscardHandler),
	}
	b.Cleanup(func() { dropBenchKeyspace(b, cfg) })
	if err := Migrate(b.Context(), cfg); err != nil {
		b.Fatal(err)
	}
	return cfg
}

func dropBenchKeyspace(b *testing.B, cfg Config) {
	full, err := cfg.withDefaults()
	if err == nil {
		err = withSchemaSession(context.Background(), &full, "", func(s *gocql.Session) error {
			return s.Query("DROP KEYSPACE IF EXISTS " + quoteIdentifier(cfg.Keyspace)).Exec()
		})
	}
	if err != nil {
		b.Error(err)
	}
}

// BenchmarkEvents compares Save with what one would write by hand without any
// guarantee: unlogged batches of one partition, many in flight. The two take turns,
// so that whatever else the machine does disturbs both. An iteration is a few
// batches of each lane, by each of them.
func BenchmarkEvents(b *testing.B) {
	cfg := benchConfig(b)
	sink, err := Open(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer sink.Close(b.Context())
	claims := make([]framework.Claim[Write], benchLanes)
	for lane := range claims {
		if claims[lane], err = sink.Claim(b.Context(), "bench", offsetstore.TopicPartition{Topic: "bench", Partition: int32(lane)}, offsetstore.At(0)); err != nil {
			b.Fatal(err)
		}
	}
	byHand := func(ctx context.Context, lane int, from int64) error {
		return loadByHand(ctx, sink.session, benchLanes+lane, from)
	}
	bySink := func(ctx context.Context, lane int, from int64) error {
		return claims[lane].Save(ctx, benchBatch(lane, from))
	}
	var hand, saved time.Duration
	from := int64(0)
	for b.Loop() {
		hand += runLanes(b, from, byHand)
		saved += runLanes(b, from, bySink)
		from += benchTurn * benchRows
	}
	rows := float64(from) * benchLanes
	b.ReportMetric(rows/hand.Seconds(), "hand-rows/s")
	b.ReportMetric(rows/saved.Seconds(), "sink-rows/s")
	b.ReportMetric(hand.Seconds()/saved.Seconds(), "ratio")
}

// benchBatch is a batch as a pipeline hands it to Save.
func benchBatch(lane int, from int64) *framework.Batch[Write] {
	batch := &framework.Batch[Write]{
		From:   framework.Progress{Position: offsetstore.At(from)},
		To:     framework.Progress{Position: offsetstore.At(from + benchRows)},
		Writes: make([]Write, benchRows),
	}
	for i := range batch.Writes {
		batch.Writes[i] = eventRows.Insert(benchEvent(lane, from+int64(i)))
	}
	return batch
}

// runLanes lets each lane save some batches, without waiting for the others, and
// returns how long all of it took.
func runLanes(b *testing.B, from int64, save func(ctx context.Context, lane int, from int64) error) time.Duration {
	start := time.Now()
	g, ctx := errgroup.WithContext(b.Context())
	for lane := range benchLanes {
		g.Go(func() error {
			for i := range int64(benchTurn) {
				if err := save(ctx, lane, from+i*benchRows); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}

// loadByHand writes rows as a careful program without guarantees would.
func loadByHand(ctx context.Context, s *gocql.Session, lane int, from int64) error {
	const cql = "INSERT INTO events (topic, partition, bucket, offset, source, health, time, message) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for start := from; start < from+benchRows; start += 200 {
		batch := s.NewBatch(gocql.UnloggedBatch).WithContext(ctx)
		batch.SetConsistency(gocql.Quorum)
		for o := start; o < start+200; o++ {
			e := benchEvent(lane, o)
			batch.Query(cql, e.Topic, e.Partition, e.Bucket, e.Offset, e.Source, e.Health, e.Time, e.Message)
		}
		g.Go(func() error { return s.ExecuteBatch(batch) })
	}
	return g.Wait()
}
