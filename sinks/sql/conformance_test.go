package sql_test

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/sinktest"
	"github.com/lockstep-stream/lockstep/sinks/sql"
)

type keyValue struct {
	Key   string `db:"k,key"`
	Value string `db:"v"`
}

var keyValues = sql.NewTable[keyValue]("key_values")

const keyValuesSchema = `CREATE TABLE IF NOT EXISTS key_values (k TEXT NOT NULL PRIMARY KEY, v TEXT NOT NULL CHECK (v <> 'refused'))`

func TestConformance(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "conformance.db")
	open := func(ctx context.Context) (framework.Sink[sql.Write], error) {
		return sql.Open(ctx, sql.Config{
			DSN:    "sqlite://" + path + "?synchronous=normal", // no rule is about power
			Tables: []sql.AnyTable{keyValues},
			Schema: []string{keyValuesSchema},
		})
	}
	first, err := open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close(context.Background())
	if err := first.(*sql.Sink).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	db := openReader(t, path)
	sinktest.Run(t, sinktest.Harness[sql.Write]{
		Guarantee:   framework.Guarantee{Level: framework.ExactlyOnce, State: true, DeadLetters: true},
		Open:        open,
		Write:       func(key, value string) sql.Write { return keyValues.Upsert(keyValue{key, value}) },
		Delete:      func(key string) sql.Write { return keyValues.Delete(keyValue{Key: key}) },
		Refused:     func(key string) sql.Write { return keyValues.Insert(keyValue{key, "refused"}) },
		Rows:        func(ctx context.Context, keys []string) (map[string]string, error) { return readRows(ctx, db, keys) },
		DeadLetters: first.(*sql.Sink).DeadLetters,
		Hold: func(ctx context.Context, _ string, _ offsetstore.TopicPartition) (func(), error) {
			return lockSQLite(ctx, path)
		},
		BigBatch: 1000, // more than any one statement writes
	})
}

// lockSQLite takes the database's one write lock, as a process has it in the middle
// of a save.
func lockSQLite(ctx context.Context, path string) (release func(), err error) {
	db, err := stdsql.Open("sqlite", "file:"+path+"?_busy_timeout=10000")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // so that ROLLBACK is said to the same one
	if _, err := db.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return func() {
		_, _ = db.Exec("ROLLBACK") // as Close does, too
		_ = db.Close()
	}, nil
}

// openReader opens the database as another program would.
func openReader(t testing.TB, path string) *stdsql.DB {
	t.Helper()
	db, err := stdsql.Open("sqlite", "file:"+path+"?mode=ro&_busy_timeout=10000")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func readRows(ctx context.Context, db *stdsql.DB, keys []string) (map[string]string, error) {
	found := map[string]string{}
	for len(keys) > 0 {
		part := keys[:min(len(keys), 1000)]
		keys = keys[len(part):]
		args := make([]any, len(part))
		for i, key := range part {
			args[i] = key
		}
		rows, err := db.QueryContext(ctx, fmt.Sprintf("SELECT k, v FROM key_values WHERE k IN (%s)",
			strings.TrimSuffix(strings.Repeat("?,", len(part)), ",")), args...)
		if err != nil {
			return nil, err
		}
		for rows.Next() {
			var k, v string
			if err := rows.Scan(&k, &v); err != nil {
				return nil, err
			}
			found[k] = v
		}
		if err := rows.Close(); err != nil {
			return nil, err
		}
	}
	return found, nil
}
