package sql

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

type numbered struct {
	ID int64 `db:"id,key"`
}

func newTestSink(t *testing.T, parameters string, schema ...string) (*Sink, *Table[numbered]) {
	t.Helper()
	table := NewTable[numbered]("t")
	s, err := Open(t.Context(), Config{
		DSN:    "sqlite://" + filepath.Join(t.TempDir(), "test.db") + parameters,
		Tables: []AnyTable{table},
		Schema: append([]string{`CREATE TABLE IF NOT EXISTS p (id INTEGER PRIMARY KEY)`}, schema...),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, table
}

func newTestClaim(t *testing.T, s *Sink) *claim {
	t.Helper()
	c, err := s.Claim(t.Context(), "p", offsetstore.TopicPartition{Topic: "t"}, offsetstore.At(0))
	if err != nil {
		t.Fatal(err)
	}
	return c.(*claim)
}

func move(from, to int64, writes ...Write) *framework.Batch[Write] {
	return &framework.Batch[Write]{
		From:   framework.Progress{Position: offsetstore.At(from)},
		To:     framework.Progress{Position: offsetstore.At(to)},
		Writes: writes,
	}
}

func TestConnectionsAreDurableAsConfigured(t *testing.T) {
	t.Parallel()
	for parameters, want := range map[string]int{"": 2, "?synchronous=full": 2, "?synchronous=normal": 1} {
		s, _ := newTestSink(t, parameters, `CREATE TABLE t (id INTEGER PRIMARY KEY)`)
		var mode string
		var synchronous int
		err := s.writers.transaction(t.Context(), func(w *writer) error {
			return errors.Join(w.scan(t.Context(), `PRAGMA journal_mode`, nil, &mode), w.scan(t.Context(), `PRAGMA synchronous`, nil, &synchronous))
		})
		if err != nil || mode != "wal" || synchronous != want {
			t.Errorf("%q: journal mode %s, synchronous %d (%v); want wal and %d", parameters, mode, synchronous, err, want)
		}
	}
}

// A deferred constraint is one way for a COMMIT to fail after every statement
// has succeeded.
func TestCommitThatFailsIsReadBackAndLeavesTheClaimGood(t *testing.T) {
	t.Parallel()
	s, table := newTestSink(t, "", `CREATE TABLE t (id INTEGER PRIMARY KEY REFERENCES p (id) DEFERRABLE INITIALLY DEFERRED)`)
	w := <-s.writers.idle
	if err := w.connect(t.Context(), s.pools.write); err != nil {
		t.Fatal(err)
	}
	if _, err := w.conn.ExecContext(t.Context(), `PRAGMA foreign_keys = ON; INSERT INTO p VALUES (1)`); err != nil {
		t.Fatal(err)
	}
	s.writers.idle <- w

	c := newTestClaim(t, s)
	err := c.Save(t.Context(), move(0, 1, table.Insert(numbered{2})))
	var se *framework.SaveError
	var ce *commitError
	if !errors.As(err, &se) || se.Outcome != framework.NotSaved || se.ClaimSpent || !errors.Is(err, framework.ErrRefused) || errors.As(err, &ce) {
		t.Fatalf("Save returned %v, want ErrRefused, not saved, with the claim good", err)
	}
	if err := c.Save(t.Context(), move(0, 1, table.Insert(numbered{1}))); err != nil {
		t.Errorf("the claim is not good: %v", err)
	}
}

func TestOutcomeOfALostCommitIsReadFromTheRow(t *testing.T) {
	t.Parallel()
	s, _ := newTestSink(t, "", `CREATE TABLE t (id INTEGER PRIMARY KEY)`)
	lost := &commitError{errors.New("lost")}
	settle := func(c *claim) error { return c.settle(t.Context(), lost) }

	c := newTestClaim(t, s)
	if err := settle(c); err == nil || errors.Is(err, framework.ErrUnknown) {
		t.Errorf("nothing was saved: %v, want the error itself", err)
	}
	before := *c
	if err := c.Save(t.Context(), move(0, 1)); err != nil {
		t.Fatal(err)
	}
	if err := settle(&before); err != nil {
		t.Errorf("the save took effect: %v, want nil", err)
	}
	other := newTestClaim(t, s)
	if err := settle(c); err == nil || errors.Is(err, framework.ErrUnknown) {
		t.Errorf("another owner claimed, and nothing was saved since: %v, want the error itself", err)
	}
	if err := other.Save(t.Context(), move(1, 2)); err != nil {
		t.Fatal(err)
	}
	if err := settle(c); !errors.Is(err, framework.ErrUnknown) {
		t.Errorf("another owner has saved: %v, want ErrUnknown", err)
	}
	var se *framework.SaveError
	if err := c.failed(settle(c)); !errors.As(err, &se) || se.Outcome != framework.Unknown || !se.ClaimSpent {
		t.Errorf("an unknown outcome gives %v, want Unknown with the claim spent", err)
	}
}

func TestStatementsWriteRowsInFewSizes(t *testing.T) {
	t.Parallel()
	s, table := newTestSink(t, "", `CREATE TABLE t (id INTEGER PRIMARY KEY)`)
	c := newTestClaim(t, s)
	for n := range int64(70) {
		var writes []Write
		for i := range n {
			writes = append(writes, table.Upsert(numbered{i}))
		}
		if err := c.Save(t.Context(), move(n, n+1, writes...)); err != nil {
			t.Fatal(err)
		}
		var count int64
		if err := s.pools.read.QueryRowContext(t.Context(), `SELECT count(*) FROM t`).Scan(&count); err != nil || count != n {
			t.Fatalf("%d rows were upserted, there are %d (%v)", n, count, err)
		}
	}
	w := <-s.writers.idle
	defer func() { s.writers.idle <- w }()
	sizes := 0
	for st := range w.prepared {
		if st.table != nil {
			sizes++
		}
	}
	if sizes != 5 {
		t.Errorf("%d statements were prepared for the table, want 5: 16, 8, 4, 2 and 1 rows", sizes)
	}
}

func TestRowsOfManyColumnsFitTheStatement(t *testing.T) {
	t.Parallel()
	for columns, want := range map[int]int{1: 16, 2047: 16, 2048: 8, 32766: 1} {
		if got := rowsPerStatement(columns); got != want {
			t.Errorf("%d columns: %d rows a statement, want %d", columns, got, want)
		}
	}
}

func TestFullDatabaseIsNotSavedAndLeavesTheClaimGood(t *testing.T) {
	t.Parallel()
	s, table := newTestSink(t, "", `CREATE TABLE t (id INTEGER PRIMARY KEY)`)
	c := newTestClaim(t, s)
	limit := func(pages int) {
		t.Helper()
		err := s.writers.transaction(t.Context(), func(w *writer) error {
			return w.scan(t.Context(), fmt.Sprintf(`PRAGMA max_page_count = %d`, pages), nil, &pages)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	limit(1) // which SQLite takes for as many as there are
	var writes []Write
	for i := range int64(5000) {
		writes = append(writes, table.Insert(numbered{i}))
	}
	err := c.Save(t.Context(), move(0, 5000, writes...))
	var se *framework.SaveError
	if !errors.As(err, &se) || se.Outcome != framework.NotSaved || se.ClaimSpent || !errors.Is(err, framework.ErrUnavailable) {
		t.Fatalf("Save returned %v, want ErrUnavailable, not saved, with the claim good", err)
	}
	limit(1 << 20)
	if err := c.Save(t.Context(), move(0, 5000, writes...)); err != nil {
		t.Errorf("with space again: %v", err)
	}
}

func TestConnectionThatCannotRollBackIsReplaced(t *testing.T) {
	t.Parallel()
	s, table := newTestSink(t, "", `CREATE TABLE t (id INTEGER PRIMARY KEY)`)
	c := newTestClaim(t, s)
	ended := errors.New("the transaction has ended by itself")
	var first *stdsql.Conn
	err := s.writers.transaction(t.Context(), func(w *writer) error {
		first = w.conn
		_, err := w.exec(t.Context(), `COMMIT`)
		return errors.Join(ended, err)
	})
	if !errors.Is(err, ended) {
		t.Fatal(err)
	}
	if err := c.Save(t.Context(), move(0, 1, table.Insert(numbered{1}))); err != nil {
		t.Error(err)
	}
	w := <-s.writers.idle
	defer func() { s.writers.idle <- w }()
	if w.conn == first {
		t.Error("the connection is still in use")
	}
}
