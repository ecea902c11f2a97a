package app

import (
	"context"
	_ "embed"
	"net/url"
	"strings"
)

// SQLiteSchema is schema.sql.
//
//go:embed schema.sql
var SQLiteSchema string

// sqliteDB is a [Database] in a SQLite file.
type sqliteDB struct{ sqlTables }

func parseSQLite(dsn string) (Database, error) {
	tables, err := parseSQL(dsn, SQLiteSchema)
	if err != nil {
		return nil, err
	}
	return &sqliteDB{tables}, nil
}

func (db *sqliteDB) Read(ctx context.Context) (Reader, error) {
	path, _, _ := strings.Cut(strings.TrimPrefix(db.cfg.DSN, "sqlite://"), "?")
	path, err := url.PathUnescape(path)
	if err != nil {
		return nil, err
	}
	return db.read(ctx, "sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?mode=ro&_pragma=busy_timeout(30000)", "?")
}
