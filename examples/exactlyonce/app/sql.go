package app

import (
	"context"
	"database/sql"
	"errors"

	"github.com/lockstep-stream/lockstep/framework"
	sqlsink "github.com/lockstep-stream/lockstep/sinks/sql"
)

// sqlTables is what the databases of SQL have in common.
type sqlTables struct {
	cfg    sqlsink.Config
	events *sqlsink.Table[EventRow]
	alerts *sqlsink.Table[AlertRow]
}

func parseSQL(dsn, schema string) (sqlTables, error) {
	cfg, err := sqlsink.ParseDSN(dsn)
	if err != nil {
		return sqlTables{}, err
	}
	db := sqlTables{
		cfg:    cfg,
		events: sqlsink.NewTable[EventRow]("events"),
		alerts: sqlsink.NewTable[AlertRow]("alerts"),
	}
	db.cfg.Tables = []sqlsink.AnyTable{db.events, db.alerts}
	db.cfg.Schema = []string{schema}
	return db, nil
}

func (db *sqlTables) Migrate(ctx context.Context) error {
	sink, err := sqlsink.Open(ctx, db.cfg)
	if err != nil {
		return err
	}
	return errors.Join(sink.Migrate(ctx), sink.Close(context.WithoutCancel(ctx)))
}

// Run inserts events and does not replace them: an event that came twice would
// be refused.
func (db *sqlTables) Run(ctx context.Context, source framework.Source, cfg framework.Config, observe func(*framework.Runner)) error {
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

// read is a [Reader] of tables that driver opens by the name of source.
func (db *sqlTables) read(ctx context.Context, driver, source, parameter string) (Reader, error) {
	sink, err := sqlsink.Open(ctx, db.cfg)
	if err != nil {
		return nil, err
	}
	tables, err := sql.Open(driver, source)
	if err != nil {
		return nil, errors.Join(err, sink.Close(ctx))
	}
	return &sqlReader{sink: sink, tables: tables, parameter: parameter}, nil
}

// sqlReader is a [Reader] of a database of SQL.
type sqlReader struct {
	sink      *sqlsink.Sink
	tables    *sql.DB
	parameter string // as the database writes the first of a query
}

func (r *sqlReader) Events(ctx context.Context, topic string, visit func(EventRow)) error {
	return r.each(ctx, `SELECT topic, partition, "offset", id, ts, source, client, health FROM events WHERE topic = `+r.parameter, topic,
		func(rows *sql.Rows) error {
			var e EventRow
			err := rows.Scan(&e.Topic, &e.Partition, &e.Offset, &e.ID, (*sqlTime)(&e.TS), &e.Source, &e.Client, &e.Health)
			if err == nil {
				visit(e)
			}
			return err
		})
}

func (r *sqlReader) Alerts(ctx context.Context, topic string, visit func(AlertRow)) error {
	return r.each(ctx, `SELECT source, ts, topic, partition, event_count FROM alerts WHERE topic = `+r.parameter, topic,
		func(rows *sql.Rows) error {
			var a AlertRow
			err := rows.Scan(&a.Source, (*sqlTime)(&a.TS), &a.Topic, &a.Partition, &a.EventCount)
			if err == nil {
				visit(a)
			}
			return err
		})
}

func (r *sqlReader) each(ctx context.Context, query, topic string, scan func(*sql.Rows) error) error {
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

func (r *sqlReader) Positions(ctx context.Context, topic string) (map[int32]int64, error) {
	return positions(ctx, r.sink, topic)
}

func (r *sqlReader) Close() error {
	return errors.Join(r.tables.Close(), r.sink.Close(context.Background()))
}
