package app

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	sqlsink "github.com/lockstep-stream/lockstep/sinks/sql"
)

// SQLiteSchema is schema.sql.
//
//go:embed schema.sql
var SQLiteSchema string

// sqliteDB is a [Database] in a SQLite file.
type sqliteDB struct {
	cfg    sqlsink.Config
	events *sqlsink.Table[EventRow]
	alerts *sqlsink.Table[AlertRow]
}

func parseSQLite(dsn string) (Database, error) {
	cfg, err := sqlsink.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	db := &sqliteDB{
		cfg:    cfg,
		events: sqlsink.NewTable[EventRow]("events"),
		alerts: sqlsink.NewTable[AlertRow]("alerts"),
	}
	db.cfg.Tables = []sqlsink.AnyTable{db.events, db.alerts}
	db.cfg.Schema = []string{SQLiteSchema}
	return db, nil
}

func (db *sqliteDB) Migrate(ctx context.Context) error {
	sink, err := sqlsink.Open(ctx, db.cfg)
	if err != nil {
		return err
	}
	return errors.Join(sink.Migrate(ctx), sink.Close(context.WithoutCancel(ctx)))
}

// Run inserts events and does not replace them: an event that came twice would
// be refused.
func (db *sqliteDB) Run(ctx context.Context, source framework.Source, cfg framework.Config, observe func(*framework.Runner)) error {
	p, err := Pipeline(db.events.Insert, db.alerts.Upsert)
	if err != nil {
		return err
	}
	sink, err := sqlsink.Open(ctx, db.cfg)
	if err != nil {
		return err
	}
	err = run(ctx, p, source, sink, cfg, observe)
	return errors.Join(err, sink.Close(context.WithoutCancel(ctx)))
}

func (db *sqliteDB) Read(ctx context.Context) (Reader, error) {
	sink, err := sqlsink.Open(ctx, db.cfg)
	if err != nil {
		return nil, err
	}
	path, _, _ := strings.Cut(strings.TrimPrefix(db.cfg.DSN, "sqlite://"), "?")
	path, err = url.PathUnescape(path)
	if err != nil {
		return nil, errors.Join(err, sink.Close(ctx))
	}
	tables, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?mode=ro&_pragma=busy_timeout(30000)")
	if err != nil {
		return nil, errors.Join(err, sink.Close(ctx))
	}
	return &sqliteReader{sink: sink, tables: tables}, nil
}

// sqliteReader is a [Reader] of a SQLite file.
type sqliteReader struct {
	sink   *sqlsink.Sink
	tables *sql.DB
}

func (r *sqliteReader) Events(ctx context.Context, topic string, visit func(EventRow)) error {
	return r.each(ctx, `SELECT topic, partition, "offset", id, ts, source, client, health FROM events WHERE topic = ?`, topic,
		func(rows *sql.Rows) error {
			var e EventRow
			err := rows.Scan(&e.Topic, &e.Partition, &e.Offset, &e.ID, (*sqliteTime)(&e.TS), &e.Source, &e.Client, &e.Health)
			if err == nil {
				visit(e)
			}
			return err
		})
}

func (r *sqliteReader) Alerts(ctx context.Context, topic string, visit func(AlertRow)) error {
	return r.each(ctx, `SELECT source, ts, topic, partition, event_count FROM alerts WHERE topic = ?`, topic,
		func(rows *sql.Rows) error {
			var a AlertRow
			err := rows.Scan(&a.Source, (*sqliteTime)(&a.TS), &a.Topic, &a.Partition, &a.EventCount)
			if err == nil {
				visit(a)
			}
			return err
		})
}

func (r *sqliteReader) each(ctx context.Context, query, topic string, scan func(*sql.Rows) error) error {
	rows, err := r.tables.QueryContext(ctx, query, topic)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (r *sqliteReader) Positions(ctx context.Context, topic string) (map[int32]int64, error) {
	return positions(ctx, r.sink, topic)
}

func (r *sqliteReader) Close() error {
	return errors.Join(r.tables.Close(), r.sink.Close(context.Background()))
}

// sqliteTime scans the text that the sink stores a time as.
type sqliteTime time.Time

func (t *sqliteTime) Scan(v any) error {
	text, ok := v.(string)
	if !ok {
		return fmt.Errorf("a time is stored as %T, not as text", v)
	}
	at, err := time.Parse("2006-01-02 15:04:05.999999999Z07:00", text)
	*t = sqliteTime(at)
	return err
}
