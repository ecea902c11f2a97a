package app

import (
	"time"

	"github.com/lockstep-stream/lockstep/framework"
)

// EventRow is a row of the table events. An event is found by where it was in
// Kafka, so a record has one row however often it is written.
type EventRow struct {
	Topic     string    `cql:"topic,partition" db:"topic,key"`
	Partition int32     `cql:"partition,partition" db:"partition,key"`
	Offset    int64     `cql:"offset,clustering" db:"offset,key"`
	ID        int64     `cql:"id" db:"id"`
	TS        time.Time `cql:"ts" db:"ts"`
	Source    string    `cql:"source" db:"source"`
	Client    string    `cql:"client" db:"client"`
	Health    int32     `cql:"health" db:"health"`
}

func eventRow(ctx framework.Context, e Event) EventRow {
	return EventRow{
		Topic: ctx.Topic(), Partition: ctx.Partition(), Offset: ctx.Record().Offset,
		ID: e.ID, TS: time.UnixMilli(e.TS).UTC(), Source: e.Source, Client: e.Client, Health: e.Health,
	}
}

// AlertRow is a row of the table alerts: how many events of low health one
// partition of the topic has had from one source within one minute. The total
// of a source and minute is the sum over topic and partition: each partition
// keeps a count of its own, so that no two ever overwrite each other.
type AlertRow struct {
	Source     string    `cql:"source,partition" db:"source,key"`
	TS         time.Time `cql:"ts,clustering" db:"ts,key"` // the start of the minute
	Topic      string    `cql:"topic,clustering" db:"topic,key"`
	Partition  int32     `cql:"partition,clustering" db:"partition,key"`
	EventCount int64     `cql:"event_count" db:"event_count"`
}

func alertRow(ctx framework.Context, c Count) AlertRow {
	return AlertRow{
		Source: c.Key.Source, TS: c.Key.Time(),
		Topic: ctx.Topic(), Partition: ctx.Partition(), EventCount: c.Value,
	}
}
