//go:build integration

package sql_test

import (
	"context"
	"crypto/rand"
	stdsql "database/sql"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx", for readers

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/integration/servers"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/sinktest"
	"github.com/lockstep-stream/lockstep/sinks/sql"
)

// postgresURL returns a DSN of a database on the run's server, or behind another
// address of it.
func postgresURL(addr, database string, parameters ...string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(servers.PostgresUser, servers.PostgresPassword),
		Host: addr, Path: "/" + database, RawQuery: strings.Join(append([]string{"sslmode=disable"}, parameters...), "&"),
	}
	return u.String()
}

// postgresDatabase makes a database of the test's own and returns its name.
func postgresDatabase(t testing.TB) string {
	t.Helper()
	name := "test_" + strings.ToLower(rand.Text())
	admin := openPostgres(t, servers.PostgresDatabase)
	execPostgres(t, admin, "CREATE DATABASE "+name)
	t.Cleanup(func() {
		execPostgres(t, openPostgres(t, servers.PostgresDatabase), "DROP DATABASE "+name+" WITH (FORCE)")
	})
	return name
}

// openPostgres connects as another program would.
func openPostgres(t testing.TB, database string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), postgresURL(servers.Postgres(t), database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func execPostgres(t testing.TB, conn *pgx.Conn, statement string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(context.Background(), statement, args...); err != nil {
		t.Fatal(err)
	}
}

const postgresKeyValues = `CREATE TABLE IF NOT EXISTS key_values (k TEXT COLLATE "C" NOT NULL PRIMARY KEY, v TEXT NOT NULL CHECK (v <> 'refused'))`

func TestPostgresConformance(t *testing.T) {
	dsn := postgresURL(servers.Postgres(t), postgresDatabase(t))
	open := func(ctx context.Context) (framework.Sink[sql.Write], error) {
		return sql.Open(ctx, sql.Config{DSN: dsn, Tables: []sql.AnyTable{keyValues}, Schema: []string{postgresKeyValues}})
	}
	first, err := open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close(context.Background())
	if err := first.(*sql.Sink).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	db, err := stdsql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	sinktest.Run(t, sinktest.Harness[sql.Write]{
		Guarantee: framework.Guarantee{Level: framework.ExactlyOnce, State: true, DeadLetters: true},
		Open:      open,
		Write:     func(key, value string) sql.Write { return keyValues.Upsert(keyValue{key, value}) },
		Delete:    func(key string) sql.Write { return keyValues.Delete(keyValue{Key: key}) },
		Refused:   func(key string) sql.Write { return keyValues.Insert(keyValue{key, "refused"}) },
		Rows: func(ctx context.Context, keys []string) (map[string]string, error) {
			return postgresRows(ctx, db, keys)
		},
		DeadLetters: first.(*sql.Sink).DeadLetters,
		Hold: func(ctx context.Context, pipeline string, tp offsetstore.TopicPartition) (func(), error) {
			return lockPostgresLane(ctx, db, pipeline, tp)
		},
	})
}

// lockPostgresLane locks the lane's row, as a transaction has it in the middle of a
// save.
func lockPostgresLane(ctx context.Context, db *stdsql.DB, pipeline string, tp offsetstore.TopicPartition) (release func(), err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	release = func() { _ = tx.Rollback() } // nothing was changed
	var id int64
	const lock = `SELECT id FROM lockstep_lane WHERE pipeline = $1 AND topic = $2 AND partition = $3 FOR UPDATE`
	if err := tx.QueryRowContext(ctx, lock, pipeline, tp.Topic, tp.Partition).Scan(&id); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

func postgresRows(ctx context.Context, db *stdsql.DB, keys []string) (map[string]string, error) {
	var askable []string // no row has any other key
	for _, k := range keys {
		if !strings.ContainsRune(k, 0) && strings.ToValidUTF8(k, "") == k {
			askable = append(askable, k)
		}
	}
	rows, err := db.QueryContext(ctx, `SELECT k, v FROM key_values WHERE k = ANY ($1)`, askable)
	if err != nil {
		return nil, fmt.Errorf("rows: %w", err)
	}
	defer rows.Close()
	found := map[string]string{}
	for rows.Next() {
		var k, v string
		if err := rows.Scan(&k, &v); err != nil {
			return nil, err
		}
		found[k] = v
	}
	return found, rows.Err()
}
