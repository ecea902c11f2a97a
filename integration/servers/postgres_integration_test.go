//go:build integration

package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func connectPostgres(ctx context.Context, addr, password string) (*pgx.Conn, error) {
	return pgx.Connect(ctx, fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", PostgresUser, password, addr, PostgresDatabase))
}

func askPostgres(t *testing.T, addr, query string) (n int) {
	t.Helper()
	conn, err := connectPostgres(t.Context(), addr, PostgresPassword)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if err := conn.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestPostgresKeepsPortAndData takes a server of its own through an orderly stop,
// which does not wait for its clients, and a kill.
func TestPostgresKeepsPortAndData(t *testing.T) {
	set, err := Start(t.Context(), Options{Postgres: true, FastStart: true})
	if err != nil {
		t.Fatal(err)
	}
	dir, processes := placeOf(set)
	t.Cleanup(func() { closeAndCheck(t, set, dir, processes) })
	addr := set.Postgres.Addr()
	client, err := connectPostgres(t.Context(), addr, PostgresPassword)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(context.WithoutCancel(t.Context()))
	if _, err := client.Exec(t.Context(), `CREATE TABLE kept (id int PRIMARY KEY)`); err != nil {
		t.Fatal(err)
	}
	for id, end := range []func(context.Context) error{set.Postgres.Stop, set.Postgres.Kill} {
		askPostgres(t, addr, fmt.Sprintf(`INSERT INTO kept VALUES (%d) RETURNING id`, id))
		restart(t, set.Postgres, end)
		if got := askPostgres(t, addr, `SELECT count(*) FROM kept`); got != id+1 {
			t.Errorf("%d rows after start number %d, want %d", got, id+2, id+1)
		}
	}
}

// TestPostgresRefusesStrangers uses the run's shared server.
func TestPostgresRefusesStrangers(t *testing.T) {
	_, err := connectPostgres(t.Context(), Postgres(t), "wrong")
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "28P01" {
		t.Errorf("a wrong password gives %v", err)
	}
}

// TestBrokenPostgresShowsItsLog starts a server whose cluster is damaged.
func TestBrokenPostgresShowsItsLog(t *testing.T) {
	p, err := newPackages(t.Context(), Options{Postgres: true, FastStart: true}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	set := &Set{host: p}
	defer func() { closeAndCheck(t, set, p.dir, p.running) }()
	l, err := p.postgres(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(l.backend.(*process).dir + "/data/PG_VERSION"); err != nil {
		t.Fatal(err)
	}
	_, err = Options{}.withDefaults().service(t.Context(), "postgres", l, postgresReady)
	if err == nil || !strings.Contains(err.Error(), "end of its log") || !strings.Contains(err.Error(), "PG_VERSION") {
		t.Errorf("the error does not tell: %v", err)
	}
}
