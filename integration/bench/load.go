package main

import (
	"context"
	"fmt"
	"time"

	"github.com/gocql/gocql"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/lockstep-stream/lockstep/examples/exactlyonce/app"
	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/codec"
	"github.com/lockstep-stream/lockstep/sinks/cassandra"
)

// loadBound is the least rate of the pipeline, as a share of the bare loader's.
const loadBound = 0.7

func benchLoad(ctx context.Context, o options, r *report) error {
	topic, err := newTopic(ctx, o, o.rows)
	if err != nil {
		return err
	}
	table := cassandra.NewTable[event]("events")
	return compare(r, "load", o.rows, o.rounds, []side{
		{"bare loader, no offsets", loaderFloor, func() (time.Duration, error) {
			cfg, err := keyspace(ctx, o)
			if err != nil {
				return 0, err
			}
			return load(ctx, o, topic, cfg)
		}},
		{"pipeline, Cassandra sink", loadBound, func() (time.Duration, error) {
			cfg, err := keyspace(ctx, o, table)
			if err != nil {
				return 0, err
			}
			return loadByPipeline(ctx, o, topic, cfg, table)
		}},
	})
}

func rowOf(topic string, partition int32, offset int64, e app.Event) event {
	return event{
		Topic: topic, Partition: partition, Bucket: int32(offset / bucketOffsets), Offset: offset,
		ID: e.ID, TS: time.UnixMilli(e.TS), Source: e.Source, Client: e.Client, Health: e.Health,
	}
}

func loadByPipeline(ctx context.Context, o options, topic string, cfg cassandra.Config, table *cassandra.Table[event]) (time.Duration, error) {
	sink, err := cassandra.Open(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer sink.Close(ctx)
	rows := framework.MapErr(framework.From(codec.JSON[app.Event]()), func(ctx framework.Context, e app.Event) (cassandra.Write, error) {
		return table.Insert(rowOf(ctx.Topic(), ctx.Partition(), ctx.Record().Offset, e)), nil
	})
	p, err := framework.NewPipeline("bench-load", rows)
	if err != nil {
		return 0, err
	}
	took, err := runUntil(ctx, o, topic, o.rows, p, framework.Sink[cassandra.Write](sink))
	if err != nil {
		return 0, err
	}
	return took, checkRows(cfg, o.rows)
}

// loaderFloor is the least rate of the bare loader, in rows a second on two cores
// shared with the database.
const loaderFloor = 50_000

// load is what one would write by hand: decode, gather a batch for each
// Cassandra partition, send many at once.
func load(ctx context.Context, o options, topic string, cfg cassandra.Config) (time.Duration, error) {
	session, err := bareSession(cfg)
	if err != nil {
		return 0, err
	}
	defer session.Close()
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(o.loaderInFlight)
	decoder := codec.JSON[app.Event]()
	batches := map[string]*gocql.Batch{}
	send := func(b *gocql.Batch) { group.Go(func() error { return session.ExecuteBatch(b) }) }
	err = consume(ctx, o, topic, o.rows, func(r *kgo.Record) error {
		var e app.Event
		if err := decoder.Decode(r.Value, &e); err != nil {
			return err
		}
		row := rowOf(r.Topic, r.Partition, r.Offset, e)
		key := fmt.Sprint(row.Partition, row.Bucket)
		b := batches[key]
		if b == nil {
			b = session.NewBatch(gocql.UnloggedBatch).WithContext(ctx)
			batches[key] = b
		}
		b.Query(`INSERT INTO events (topic, partition, bucket, offset, id, ts, source, client, health) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			row.Topic, row.Partition, row.Bucket, row.Offset, row.ID, row.TS, row.Source, row.Client, row.Health)
		if b.Size() == o.loaderRows {
			delete(batches, key)
			send(b)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, b := range batches {
		send(b)
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	return time.Since(began), checkRows(cfg, o.rows)
}

func bareSession(cfg cassandra.Config) (*gocql.Session, error) {
	c := gocql.NewCluster(cfg.Hosts...)
	c.Keyspace = cfg.Keyspace
	c.Timeout = 10 * time.Second
	c.Consistency = gocql.Quorum
	c.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy())
	return c.CreateSession()
}

// checkRows counts what is in the table: a side that loses rows has no rate.
func checkRows(cfg cassandra.Config, want int) error {
	session, err := bareSession(cfg)
	if err != nil {
		return err
	}
	defer session.Close()
	got := 0
	iter := session.Query(`SELECT offset FROM events`).PageSize(20_000).Iter()
	for scanner := iter.Scanner(); scanner.Next(); {
		got++
	}
	if err := iter.Close(); err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%d rows in the table, want %d", got, want)
	}
	return nil
}
