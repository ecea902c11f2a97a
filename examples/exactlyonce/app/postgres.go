package app

import (
	"context"
	_ "embed"
	"log/slog"
	"net/url"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// PostgresSchema is schema_postgres.sql.
//
//go:embed schema_postgres.sql
var PostgresSchema string

// postgresDB is a [Database] on a PostgreSQL server.
type postgresDB struct{ sqlTables }

func parsePostgres(dsn string, wait time.Duration, log *slog.Logger) (Database, error) {
	tables, err := parseSQL(dsn, PostgresSchema)
	if err != nil {
		return nil, err
	}
	tables.cfg.Logger = log
	if tables.cfg.StartWait == 0 {
		tables.cfg.StartWait = wait
	}
	return &postgresDB{tables}, nil
}

func (db *postgresDB) Read(ctx context.Context) (Reader, error) {
	u, err := url.Parse(db.cfg.DSN)
	if err != nil {
		return nil, err
	}
	q := u.Query() // without the sink's own parameters
	q.Del("start_wait")
	q.Del("writers")
	u.RawQuery = q.Encode()
	return db.read(ctx, "pgx", u.String(), "$1")
}
