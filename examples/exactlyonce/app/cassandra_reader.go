package app

import (
	"context"
	"errors"
	"time"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/sinks/cassandra"
)

// cassandraReadTimeout is for a page of a table scan, which a busy server may
// take its time for.
const cassandraReadTimeout = 30 * time.Second

// cassandraReader is a [Reader] of Cassandra. It scans whole tables, so that it
// sees rows that should not be there, too.
type cassandraReader struct {
	sink    *cassandra.Sink
	session *gocql.Session
}

func (r *cassandraReader) Events(ctx context.Context, topic string, visit func(EventRow)) error {
	iter := r.session.Query(`SELECT topic, partition, offset, id, ts, source, client, health FROM events WHERE topic = ? ALLOW FILTERING`, topic).
		WithContext(ctx).Iter()
	for {
		var e EventRow
		if !iter.Scan(&e.Topic, &e.Partition, &e.Offset, &e.ID, &e.TS, &e.Source, &e.Client, &e.Health) {
			return iter.Close()
		}
		visit(e)
	}
}

func (r *cassandraReader) Alerts(ctx context.Context, topic string, visit func(AlertRow)) error {
	iter := r.session.Query(`SELECT source, ts, topic, partition, event_count FROM alerts WHERE topic = ? ALLOW FILTERING`, topic).
		WithContext(ctx).Iter()
	for {
		var a AlertRow
		if !iter.Scan(&a.Source, &a.TS, &a.Topic, &a.Partition, &a.EventCount) {
			return iter.Close()
		}
		visit(a)
	}
}

func (r *cassandraReader) Positions(ctx context.Context, topic string) (map[int32]int64, error) {
	return positions(ctx, r.sink, topic)
}

func (r *cassandraReader) Close() error {
	r.session.Close()
	return errors.Join(r.sink.Close(context.Background()))
}
