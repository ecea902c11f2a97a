package main

import (
	"context"
	stdsql "database/sql"
	"errors"

	"github.com/lockstep-stream/lockstep/sinks/sql"
)

// revenueRow is what a customer has spent on one Kafka partition. The total is
// the sum over partitions.
type revenueRow struct {
	Customer  string `db:"customer,key"`
	Partition int32  `db:"partition,key"`
	Cents     int64  `db:"cents"`
}

var revenues = sql.NewTable[revenueRow]("revenue")

const schema = `
CREATE TABLE IF NOT EXISTS revenue (customer TEXT, partition INTEGER, cents INTEGER NOT NULL, PRIMARY KEY (customer, partition));
CREATE TABLE IF NOT EXISTS revenue_before (customer TEXT PRIMARY KEY, cents INTEGER NOT NULL);`

// database is the service's SQLite file: as it has always been used, and as a
// sink.
type database struct {
	db   *stdsql.DB
	sink *sql.Sink
}

func openDatabase(ctx context.Context, file string) (*database, error) {
	sink, err := sql.Open(ctx, sql.Config{DSN: "sqlite://" + file, Tables: []sql.AnyTable{revenues}, Schema: []string{schema}})
	if err != nil {
		return nil, err
	}
	if err := sink.Migrate(ctx); err != nil {
		return nil, errors.Join(err, sink.Close(ctx))
	}
	db, err := stdsql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		return nil, errors.Join(err, sink.Close(ctx))
	}
	return &database{db: db, sink: sink}, nil
}

func (d *database) close(ctx context.Context) error {
	return errors.Join(d.db.Close(), d.sink.Close(ctx))
}

// add is how the handler counted.
func (d *database) add(ctx context.Context, o order) error {
	_, err := d.db.ExecContext(ctx, `INSERT INTO revenue_before VALUES (?, ?) ON CONFLICT DO UPDATE SET cents = cents + excluded.cents`, o.Customer, o.Cents)
	return err
}

// totals returns what a table says each customer has spent.
func (d *database) totals(ctx context.Context, table string) (map[string]int64, error) {
	rows, err := d.db.QueryContext(ctx, `SELECT customer, sum(cents) FROM `+table+` GROUP BY customer`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	totals := map[string]int64{}
	for rows.Next() {
		var customer string
		var cents int64
		if err := rows.Scan(&customer, &cents); err != nil {
			return nil, err
		}
		totals[customer] = cents
	}
	return totals, rows.Err()
}
