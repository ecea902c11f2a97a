package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/sinks/cassandra"
)

// schema is for both sides: the same tables, the same rows.
const schema = `
CREATE TABLE IF NOT EXISTS events (
    topic text, partition int, bucket int, offset bigint,
    id bigint, ts timestamp, source text, client text, health int,
    PRIMARY KEY ((topic, partition, bucket), offset));
CREATE TABLE IF NOT EXISTS counts (
    topic text, partition int, client text, n bigint,
    PRIMARY KEY ((topic, partition), client));
`

// event is a row of events.
type event struct {
	Topic     string    `cql:"topic,partition"`
	Partition int32     `cql:"partition,partition"`
	Bucket    int32     `cql:"bucket,partition"`
	Offset    int64     `cql:"offset,clustering"`
	ID        int64     `cql:"id"`
	TS        time.Time `cql:"ts"`
	Source    string    `cql:"source"`
	Client    string    `cql:"client"`
	Health    int32     `cql:"health"`
}

// bucketOffsets keeps Cassandra partitions at a few megabytes.
const bucketOffsets = 100_000

// countRow is a row of counts.
type countRow struct {
	Topic     string `cql:"topic,partition"`
	Partition int32  `cql:"partition,partition"`
	Client    string `cql:"client,clustering"`
	N         int64  `cql:"n"`
}

// keyspace is one for this run, with the tables in it.
func keyspace(ctx context.Context, o options, tables ...cassandra.AnyTable) (cassandra.Config, error) {
	cfg := cassandra.Config{
		Hosts:       []string{o.cassandra},
		Keyspace:    "bench_" + strings.ReplaceAll(uuid.NewString(), "-", ""),
		Replication: "1", Schema: []string{schema}, Tables: tables, Logger: o.quiet,
	}
	return cfg, cassandra.Migrate(ctx, cfg)
}

// countsInCassandra returns the counting pipeline with Cassandra as its sink.
func countsInCassandra(ctx context.Context, o options) (run func(topic string) (time.Duration, error), done func(), err error) {
	table := cassandra.NewTable[countRow]("counts")
	cfg, err := keyspace(ctx, o, table)
	if err != nil {
		return nil, nil, err
	}
	sink, err := cassandra.Open(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	round := 0
	run = func(topic string) (time.Duration, error) {
		round++ // each round is a pipeline of its own, which begins at the beginning
		p, err := counting(fmt.Sprint("bench-reduce-", round), func(topic string, partition int32, c count) cassandra.Write {
			return table.Insert(countRow{topic, partition, c.Key, c.Value})
		})
		if err != nil {
			return 0, err
		}
		return runUntil(ctx, o, topic, o.records, p, framework.Sink[cassandra.Write](sink))
	}
	return run, func() { _ = sink.Close(ctx) }, nil
}
