package sql_test

import (
	"context"
	stdsql "database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/sinks/sql"
)

// wantNotSaved checks a definite refusal for a reason.
func wantNotSaved(t *testing.T, err, reason error, spent bool) {
	t.Helper()
	var se *framework.SaveError
	if !errors.As(err, &se) || !errors.Is(err, reason) || se.Outcome != framework.NotSaved || se.ClaimSpent != spent {
		t.Fatalf("Save returned %v, want %q, not saved, claim spent: %t", err, reason, spent)
	}
}

// openWriter opens the database as another program that writes.
func openWriter(t *testing.T, path string) *stdsql.Conn {
	t.Helper()
	db, err := stdsql.Open("sqlite", "file:"+path+"?_busy_timeout=10000")
	if err != nil {
		t.Fatal(err)
	}
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); db.Close() })
	return c
}

func run(t *testing.T, c *stdsql.Conn, statement string) {
	t.Helper()
	if _, err := c.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func TestDuplicateKeyIsRefusedNamingTheRow(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := openEvents(t, path, "")
	c := claimLane(t, s, 0)
	if err := c.Save(t.Context(), eventBatch(0, 0, 40)); err != nil {
		t.Fatal(err)
	}
	b := eventBatch(0, 40, 90)
	b.Writes[20] = events.Insert(event{Partition: 0, Offset: 17})
	err := c.Save(t.Context(), b)
	wantNotSaved(t, err, framework.ErrRefused, false)
	var row *sql.RowError
	if !errors.As(err, &row) || row.Table != "events" || row.Row != "partition=0, record_offset=17" {
		t.Errorf("the error does not name the row: %v", err)
	}
	if at := wantAgreement(t, s, path, 0); at != 40 {
		t.Errorf("the position is %d, want 40", at)
	}
}

func TestMixedWritesOfManyTablesKeepTheOrderOfEachRow(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := openSink(t, sql.Config{
		DSN:    "sqlite://" + path,
		Tables: []sql.AnyTable{events, keyValues},
		Schema: []string{eventsSchema, keyValuesSchema},
	})
	b := eventBatch(0, 0, 100)
	inserts := b.Writes
	b.Writes = nil
	for i, w := range inserts {
		b.Writes = append(b.Writes, w, keyValues.Upsert(keyValue{"last", string(rune('0' + i%10))}))
		if i%3 == 0 {
			b.Writes = append(b.Writes, events.Delete(event{Offset: int64(i)}), events.Upsert(event{Offset: int64(i), Source: "again"}))
		}
		if i%7 == 0 {
			b.Writes = append(b.Writes, keyValues.Delete(keyValue{Key: "last"}), keyValues.Insert(keyValue{"last", "inserted"}))
		}
	}
	if err := claimLane(t, s, 0).Save(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	wantAgreement(t, s, path, 0)
	db := openReader(t, path)
	var again int
	var last string
	if err := db.QueryRow(`SELECT (SELECT count(*) FROM events WHERE source = 'again'), (SELECT v FROM key_values)`).Scan(&again, &last); err != nil {
		t.Fatal(err)
	}
	if again != 34 || last != "9" {
		t.Errorf("%d rows were written again, want 34; the last value is %q, want 9", again, last)
	}
}

// A table that has changed is no fault of a record: none may be passed over for it.
func TestTableChangedUnderARunningLaneIsNoFaultOfTheRecords(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := openEvents(t, path, "")
	c := claimLane(t, s, 0)
	if err := c.Save(t.Context(), eventBatch(0, 0, 5)); err != nil {
		t.Fatal(err)
	}
	other := openWriter(t, path)
	run(t, other, `ALTER TABLE events RENAME COLUMN health TO wealth`)
	wantNotSaved(t, c.Save(t.Context(), eventBatch(0, 5, 10)), framework.ErrConfig, false)
	run(t, other, `ALTER TABLE events RENAME COLUMN wealth TO health`)
	if err := c.Save(t.Context(), eventBatch(0, 5, 10)); err != nil {
		t.Fatalf("after the column is back: %v", err)
	}
	wantAgreement(t, s, path, 0)
}

func TestPositionChangedByHandIsDamage(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := openEvents(t, path, "")
	other := openWriter(t, path)
	for name, change := range map[string]string{
		"moved":   `UPDATE lockstep_lane SET next_offset = 7`,
		"counted": `UPDATE lockstep_lane SET saves = saves + 1`,
		"removed": `DELETE FROM lockstep_lane`,
	} {
		t.Run(name, func(t *testing.T) {
			c := claimLane(t, s, 0)
			at := c.Progress().Position.Offset
			run(t, other, change)
			wantNotSaved(t, c.Save(t.Context(), eventBatch(0, at, at+5)), framework.ErrCorrupt, true)
			if count, _ := countEvents(t, path, 0); count != 0 {
				t.Errorf("%d rows were written", count)
			}
		})
	}
}

func TestDatabaseLockedByAnotherProgram(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := openEvents(t, path, "?busy_timeout=1ms")
	c := claimLane(t, s, 0)
	other := openWriter(t, path)
	run(t, other, `BEGIN IMMEDIATE`)

	wantNotSaved(t, c.Save(t.Context(), eventBatch(0, 0, 5)), framework.ErrUnavailable, false)
	if _, err := s.Claim(t.Context(), "p", orders(1), c.Progress().Position); !errors.Is(err, framework.ErrUnavailable) {
		t.Errorf("Claim returned %v, want ErrUnavailable", err)
	}
	// Readers do not wait for writers.
	if _, err := s.Positions(t.Context(), ""); err != nil {
		t.Error(err)
	}
	if err := s.Health(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := c.Load(t.Context(), []framework.StateKey{{Operator: "op"}}); err != nil {
		t.Error(err)
	}

	run(t, other, `ROLLBACK`)
	if err := c.Save(t.Context(), eventBatch(0, 0, 5)); err != nil {
		t.Errorf("after the lock is gone: %v", err)
	}
	wantAgreement(t, s, path, 0)
}

func TestWaitForALockEndsWithTheContextOrTheSink(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		by    func(s *sql.Sink, cancel context.CancelFunc)
		want  error
		spent bool
	}{
		"cancel": {func(_ *sql.Sink, cancel context.CancelFunc) { cancel() }, context.Canceled, false},
		"close":  {func(s *sql.Sink, _ context.CancelFunc) { s.Close(context.Background()) }, framework.ErrClosed, true},
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			s := openEvents(t, path, "?busy_timeout=24h") // only the end can end it
			claims := []framework.Claim[sql.Write]{claimLane(t, s, 0), claimLane(t, s, 1)}
			other := openWriter(t, path)
			run(t, other, `BEGIN IMMEDIATE`)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			saved := make(chan error) // one waits for the lock, the other for the first
			for i, c := range claims {
				go func() { saved <- c.Save(ctx, eventBatch(int32(i), 0, 5)) }()
			}
			end.by(s, cancel)
			for range claims {
				wantNotSaved(t, <-saved, end.want, end.spent)
			}
			run(t, other, `ROLLBACK`)
			wantAgreement(t, openEvents(t, path, ""), path, 0)
		})
	}
}

func TestNothingIsClaimedBeforeMigrate(t *testing.T) {
	t.Parallel()
	s, err := sql.Open(t.Context(), sql.Config{DSN: "sqlite://" + newPath(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	_, err = s.Positions(t.Context(), "")
	if !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), "run Migrate") {
		t.Errorf("Positions returned %v, want ErrConfig that tells to run Migrate", err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Positions(t.Context(), ""); err != nil {
		t.Error(err)
	}
}

func TestTablesOfAnotherFormatAreRefused(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	openEvents(t, path, "")
	run(t, openWriter(t, path), `UPDATE lockstep_format SET version = 2`)
	s, err := sql.Open(t.Context(), sql.Config{DSN: "sqlite://" + path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	if err := s.Migrate(t.Context()); !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), "format 2") {
		t.Errorf("Migrate returned %v, want ErrConfig naming the format", err)
	}
}
