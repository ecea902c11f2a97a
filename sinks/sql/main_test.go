package sql_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/sql"
)

// TestMain runs a child process of the tests that need one, or else the tests.
func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		os.Exit(runChild(role))
	}
	goleak.VerifyTestMain(m)
}

// event is a row of the tests' own table: one for each record.
type event struct {
	Partition int32  `db:"partition,key"`
	Offset    int64  `db:"record_offset,key"`
	Source    string `db:"source"`
	Health    int64  `db:"health"`
}

var events = sql.NewTable[event]("events")

const eventsSchema = `CREATE TABLE IF NOT EXISTS events (
	partition     INTEGER NOT NULL,
	record_offset INTEGER NOT NULL,
	source        TEXT    NOT NULL,
	health        INTEGER,
	PRIMARY KEY (partition, record_offset)
) WITHOUT ROWID`

// newPath returns the path of a database that does not exist yet.
func newPath(t testing.TB) string { return filepath.Join(t.TempDir(), "test.db") }

// openEvents opens and migrates a database for events.
func openEvents(t testing.TB, path, parameters string) *sql.Sink {
	t.Helper()
	return openSink(t, sql.Config{
		DSN:    "sqlite://" + path + parameters,
		Tables: []sql.AnyTable{events},
		Schema: []string{eventsSchema},
	})
}

func openSink(t testing.TB, c sql.Config) *sql.Sink {
	t.Helper()
	s, err := sql.Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := s.Migrate(context.Background()); err != nil {
		t.Fatal(err)
	}
	return s
}

func orders(partition int32) offsetstore.TopicPartition {
	return offsetstore.TopicPartition{Topic: "orders", Partition: partition}
}

func claimLane(t testing.TB, s *sql.Sink, partition int32) framework.Claim[sql.Write] {
	t.Helper()
	c, err := s.Claim(context.Background(), "p", orders(partition), offsetstore.At(0))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// eventBatch returns a batch of one event for each offset from..to-1.
func eventBatch(partition int32, from, to int64) *framework.Batch[sql.Write] {
	b := &framework.Batch[sql.Write]{
		From: framework.Progress{Position: offsetstore.At(from)},
		To:   framework.Progress{Position: offsetstore.At(to)},
	}
	for offset := from; offset < to; offset++ {
		b.Writes = append(b.Writes, events.Insert(event{Partition: partition, Offset: offset, Source: "source-17", Health: offset % 100}))
	}
	return b
}

// countEvents reads, as another program would, how many events a partition has
// and the offset after the last of them.
func countEvents(t testing.TB, path string, partition int32) (count, next int64) {
	t.Helper()
	row := openReader(t, path).QueryRow(`SELECT count(*), coalesce(max(record_offset) + 1, 0) FROM events WHERE partition = ?`, partition)
	if err := row.Scan(&count, &next); err != nil {
		t.Fatal(err)
	}
	return count, next
}

// wantAgreement checks that rows and position say the same, and returns the
// position.
func wantAgreement(t testing.TB, s *sql.Sink, path string, partition int32) int64 {
	t.Helper()
	at := claimLane(t, s, partition).Progress().Position.Offset
	if count, next := countEvents(t, path, partition); count != at || next != at {
		t.Fatalf("partition %d: the position is %d, but there are %d rows up to offset %d", partition, at, count, next)
	}
	return at
}
