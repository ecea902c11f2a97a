package app

import (
	"context"
	stdsql "database/sql"
	"errors"
	"net/url"

	"github.com/lockstep-stream/lockstep/sinks/sql"
)

// Database is the SQLite file: a sink for both pipelines, and a connection to
// read by.
type Database struct {
	Sink *sql.Sink
	read *stdsql.DB
}

// OpenDatabase opens the file, and creates it and its tables where they are
// missing.
func OpenDatabase(ctx context.Context, s Settings) (*Database, error) {
	sink, err := sql.Open(ctx, sql.Config{
		DSN: "sqlite://" + (&url.URL{Path: s.File}).EscapedPath(), Tables: []sql.AnyTable{orders, spent}, Schema: []string{schema},
	})
	if err != nil {
		return nil, err
	}
	if err := sink.Migrate(ctx); err != nil {
		return nil, errors.Join(err, sink.Close(ctx))
	}
	read, err := stdsql.Open("sqlite", "file:"+(&url.URL{Path: s.File}).EscapedPath()+"?mode=ro&_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, errors.Join(err, sink.Close(ctx))
	}
	return &Database{Sink: sink, read: read}, nil
}

// Close closes both. The pipelines must have ended.
func (d *Database) Close(ctx context.Context) error {
	return errors.Join(d.read.Close(), d.Sink.Close(ctx))
}

// Spent returns the total of a customer: the sum over the partitions.
func (d *Database) Spent(ctx context.Context, customer string) (cents int64, err error) {
	err = d.read.QueryRowContext(ctx, `SELECT COALESCE(SUM(cents), 0) FROM spent WHERE customer = ?`, customer).Scan(&cents)
	return cents, err
}
