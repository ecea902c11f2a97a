package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/sql"
)

func lockstep(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), args, &out, &err)
	return code, out.String(), err.String()
}

func TestMigrateAndPositions(t *testing.T) {
	dir := t.TempDir()
	dsn := "sqlite://" + filepath.Join(dir, "app.db")
	schema := filepath.Join(dir, "tables.sql")
	if err := os.WriteFile(schema, []byte("CREATE TABLE IF NOT EXISTS mine (id INTEGER PRIMARY KEY);"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // it may be repeated
		if code, _, stderr := lockstep(t, "migrate", "--sink", dsn, "--schema", schema); code != exitOK {
			t.Fatalf("migrate: exit %d: %s", code, stderr)
		}
	}
	save(t, dsn)

	code, out, stderr := lockstep(t, "positions", "--sink", dsn)
	if code != exitOK {
		t.Fatalf("positions: exit %d: %s", code, stderr)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "PIPELINE") {
		t.Fatalf("positions printed %q, want a heading and two lines", out)
	}
	if got := strings.Fields(lines[1]); got[0] != "a" || got[1] != "in" || got[2] != "0" || got[3] != "42" {
		t.Errorf("first line %q, want a in 0 42", lines[1])
	}
	_, out, _ = lockstep(t, "positions", "--sink", dsn, "--pipeline", "b", "--json")
	var l line
	if err := json.Unmarshal([]byte(out), &l); err != nil || l.Pipeline != "b" || l.NextOffset != 7 || l.SavedAt != nil {
		t.Errorf("JSON %q, %v: want one line of b at 7, never saved", out, err)
	}
}

// save claims two partitions and saves in one.
func save(t *testing.T, dsn string) {
	t.Helper()
	ctx := context.Background()
	sink, err := sql.Open(ctx, sql.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close(ctx)
	tp := offsetstore.TopicPartition{Topic: "in"}
	a, err := sink.Claim(ctx, "a", tp, offsetstore.At(0))
	if err != nil {
		t.Fatal(err)
	}
	to := framework.Progress{Position: offsetstore.At(42)}
	if err := a.Save(ctx, &framework.Batch[sql.Write]{From: a.Progress(), To: to}); err != nil {
		t.Fatal(err)
	}
	if _, err := sink.Claim(ctx, "b", tp, offsetstore.At(7)); err != nil {
		t.Fatal(err)
	}
}

func TestWrongArgumentsAreNamed(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"positions"}, "sink"},
		{[]string{"positions", "--sink", "app.db"}, "--sink"},
		{[]string{"positions", "--sink", "mongodb://h/db"}, "mongodb"},
		{[]string{"positions", "--sink", "cassandra://h:x/ks"}, "--sink"},
		{[]string{"positions", "--sink", "cassandra://h:9042"}, "keyspace"},
		{[]string{"positions", "--sink", "sqlite://"}, "--sink"},
		{[]string{"positions", "--sink", "sqlite://x.db", "--lines"}, "--lines"},
		{[]string{"positions", "--sink", "sqlite://x.db", "extra"}, "extra"},
		{[]string{"migrate", "--sink", "sqlite://x.db", "--schema", "missing.sql"}, "--schema"},
		{[]string{"reset"}, "reset"},
	} {
		code, _, stderr := lockstep(t, c.args...)
		if code != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit %d, %q; want %d and %q named", c.args, code, stderr, exitUsage, c.want)
		}
	}
	if _, err := os.Stat("x.db"); err == nil {
		t.Error("a database was made although the arguments were wrong")
	}
}

func TestPositionsOfADatabaseWithoutTablesSaysWhatToDo(t *testing.T) {
	dsn := "sqlite://" + filepath.Join(t.TempDir(), "empty.db")
	code, _, stderr := lockstep(t, "positions", "--sink", dsn)
	if code == exitOK || !strings.Contains(strings.ToLower(stderr), "migrate") {
		t.Errorf("exit %d, %q; want a failure that names migrate", code, stderr)
	}
}
