package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/lockstep-stream/lockstep/examples/exactlyonce/app"
	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/codec"
	"github.com/lockstep-stream/lockstep/integration/servers"
	"github.com/lockstep-stream/lockstep/sinks/sql"
)

// postgresEvents is for both sides: the same table, the same rows.
const postgresEvents = `
CREATE TABLE IF NOT EXISTS events (
    topic text NOT NULL, partition integer NOT NULL, record_offset bigint NOT NULL,
    id bigint NOT NULL, ts bigint NOT NULL, source text NOT NULL, client text NOT NULL, health integer NOT NULL,
    PRIMARY KEY (topic, partition, record_offset))`

// postgresEvent is a row of it.
type postgresEvent struct {
	Topic     string `db:"topic,key"`
	Partition int32  `db:"partition,key"`
	Offset    int64  `db:"record_offset,key"`
	ID        int64  `db:"id"`
	TS        int64  `db:"ts"`
	Source    string `db:"source"`
	Client    string `db:"client"`
	Health    int32  `db:"health"`
}

// postgresBound is the least rate of the pipeline, as a share of the bare loader's.
const postgresBound = 0.7

// copyFloor is the least rate of the bare loader, in rows a second on two cores
// shared with the database.
const copyFloor = 50_000

func benchPostgres(ctx context.Context, o options, r *report) error {
	if o.postgres == "" {
		return errors.New("no PostgreSQL; run `make bench`")
	}
	topic, err := newTopic(ctx, o, o.rows)
	if err != nil {
		return err
	}
	table := sql.NewTable[postgresEvent]("events")
	return compare(r, "postgres", o.rows, o.rounds, []side{
		{"bare COPY loader, no offsets", copyFloor, func() (time.Duration, error) {
			return inNewDatabase(ctx, o, table, func(dsn string, _ *sql.Sink) (time.Duration, error) { return copyRows(ctx, o, topic, dsn) })
		}},
		{"pipeline, PostgreSQL sink", postgresBound, func() (time.Duration, error) {
			return inNewDatabase(ctx, o, table, func(_ string, sink *sql.Sink) (time.Duration, error) {
				return intoPostgres(ctx, o, topic, sink, table)
			})
		}},
	})
}

// inNewDatabase runs one side in a database of its own, with the tables in it, and
// wants all rows there afterwards.
func inNewDatabase(ctx context.Context, o options, table sql.AnyTable, run func(dsn string, sink *sql.Sink) (time.Duration, error)) (time.Duration, error) {
	name := "bench_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	if err := onPostgres(ctx, postgresDSN(o, "postgres"), func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, "CREATE DATABASE "+name)
		return err
	}); err != nil {
		return 0, err
	}
	dsn := postgresDSN(o, name)
	sink, err := sql.Open(ctx, sql.Config{DSN: dsn, Tables: []sql.AnyTable{table}, Schema: []string{postgresEvents}, Logger: o.quiet})
	if err != nil {
		return 0, err
	}
	defer sink.Close(ctx)
	if err := sink.Migrate(ctx); err != nil {
		return 0, err
	}
	took, err := run(dsn, sink)
	if err != nil {
		return 0, err
	}
	return took, onPostgres(ctx, dsn, func(c *pgx.Conn) error {
		var got int
		err := c.QueryRow(ctx, "SELECT count(*) FROM events").Scan(&got)
		if err == nil && got != o.rows {
			err = fmt.Errorf("%d rows in the table, want %d", got, o.rows)
		}
		return err
	})
}

func postgresDSN(o options, database string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(servers.PostgresUser, servers.PostgresPassword), Host: o.postgres, Path: database}
	return u.String() + "?sslmode=disable"
}

func onPostgres(ctx context.Context, dsn string, do func(*pgx.Conn) error) error {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	return do(c)
}

func postgresRowOf(topic string, partition int32, offset int64, e app.Event) postgresEvent {
	return postgresEvent{topic, partition, offset, e.ID, e.TS, e.Source, e.Client, e.Health}
}

func intoPostgres(ctx context.Context, o options, topic string, sink *sql.Sink, table *sql.Table[postgresEvent]) (time.Duration, error) {
	rows := framework.MapErr(framework.From(codec.JSON[app.Event]()), func(ctx framework.Context, e app.Event) (sql.Write, error) {
		return table.Insert(postgresRowOf(ctx.Topic(), ctx.Partition(), ctx.Record().Offset, e)), nil
	})
	p, err := framework.NewPipeline("bench-postgres", rows)
	if err != nil {
		return 0, err
	}
	return runUntil(ctx, o, topic, o.rows, p, framework.Sink[sql.Write](sink))
}

// copyRows is what one would write by hand: decode, gather rows, COPY them through
// a few connections at once.
func copyRows(ctx context.Context, o options, topic, dsn string) (time.Duration, error) {
	const connections = 3 // as many as partitions; more were no faster
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	batches := make(chan [][]any, connections)
	for range connections {
		group.Go(func() error {
			return onPostgres(ctx, dsn, func(c *pgx.Conn) error { return copyBatches(ctx, c, batches) })
		})
	}
	group.Go(func() error {
		defer close(batches)
		return gather(ctx, o, topic, batches)
	})
	if err := group.Wait(); err != nil {
		return 0, err
	}
	return time.Since(began), nil
}

func copyBatches(ctx context.Context, c *pgx.Conn, batches <-chan [][]any) error {
	columns := []string{"topic", "partition", "record_offset", "id", "ts", "source", "client", "health"}
	for rows := range batches {
		if _, err := c.CopyFrom(ctx, pgx.Identifier{"events"}, columns, pgx.CopyFromRows(rows)); err != nil {
			return err
		}
	}
	return nil
}

// gather decodes the records and hands them on in batches.
func gather(ctx context.Context, o options, topic string, batches chan<- [][]any) error {
	decoder := codec.JSON[app.Event]()
	var rows [][]any
	send := func() error {
		select {
		case batches <- rows:
			rows = nil
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := consume(ctx, o, topic, o.rows, func(r *kgo.Record) error {
		var e app.Event
		if err := decoder.Decode(r.Value, &e); err != nil {
			return err
		}
		rows = append(rows, []any{r.Topic, r.Partition, r.Offset, e.ID, e.TS, e.Source, e.Client, e.Health})
		if len(rows) < o.copyRows {
			return nil
		}
		return send()
	})
	if err != nil {
		return err
	}
	return send()
}
