package main

import (
	"context"
	stdsql "database/sql"
	"errors"
	"io"
	"net/url"
	"path/filepath"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/codec"
	"github.com/lockstep-stream/lockstep/framework/frameworktest"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/sql"
	"github.com/lockstep-stream/lockstep/sources/kafka"
)

// row is the count of a path on one partition. The total is the sum over them.
type row struct {
	Path      string `db:"path,key"`
	Topic     string `db:"topic,key"`
	Partition int32  `db:"partition,key"`
	Failed    int64  `db:"failed"`
}

var table = sql.NewTable[row]("failed_requests")

const schema = `CREATE TABLE IF NOT EXISTS failed_requests (path TEXT, topic TEXT, partition INTEGER, failed INTEGER NOT NULL, PRIMARY KEY (path, topic, partition))`

// pipeline is the job, with its counts saved beside the positions.
func pipeline(group string) (*framework.Pipeline[sql.Write], error) {
	counts := framework.Map(framework.Filter(framework.From(codec.String()), failed), byPath)
	totals := framework.ReduceByKey("failed", counts, add)
	rows := framework.MapErr(totals, func(c framework.Context, t count) (sql.Write, error) {
		return table.Upsert(row{t.Key, c.Topic(), c.Partition(), t.Value}), nil
	})
	return framework.NewPipeline(group, rows)
}

// save runs the pipeline until ctx ends, or to the end, and shows the totals.
func save(ctx context.Context, s settings, out io.Writer) error {
	p, err := pipeline(s.group)
	if err != nil {
		return err
	}
	source, err := kafka.New(kafka.Config{Brokers: s.brokers, Topics: s.topics, Group: s.group, ClientID: s.client, InstanceID: s.client})
	if err != nil {
		return err
	}
	path := filepath.ToSlash(s.db)
	sink, err := sql.Open(ctx, sql.Config{DSN: "sqlite://" + (&url.URL{Path: path}).EscapedPath(), Tables: []sql.AnyTable{table}, Schema: []string{schema}})
	if err != nil {
		return err
	}
	if err = sink.Migrate(ctx); err == nil {
		err = s.runInto(ctx, p, source, sink)
	}
	if err = errors.Join(err, sink.Close(context.WithoutCancel(ctx))); err != nil {
		return err
	}
	totals, err := readTotals(context.WithoutCancel(ctx), path)
	show(out, "saved", totals)
	return err
}

// runInto returns when ctx ends, or at the end.
func (s settings) runInto(ctx context.Context, p *framework.Pipeline[sql.Write], source framework.Source, sink framework.Sink[sql.Write]) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cfg := framework.Config{BatchDelay: s.every, BatchRecords: s.records, Start: s.defaults}
	if s.untilEnd {
		client, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.ClientID(s.client))
		if err != nil {
			return err
		}
		ends, err := ends(ctx, client, s.topics)
		client.Close()
		if err != nil {
			return err
		}
		cfg.Hooks = whenSaved(ends, stop)
	}
	if s.crash > 0 {
		// The rows are in the database, and this process has not been told.
		cfg.Hooks.Reached = frameworktest.KillAt(framework.PointAfterSave, s.crash)
	}
	runner, err := framework.NewRunner(p, source, sink, cfg)
	if err != nil {
		return err
	}
	return runner.Run(ctx)
}

// whenSaved returns hooks that call done once all partitions are saved up to ends.
func whenSaved(ends offsets, done func()) framework.Hooks {
	var mu sync.Mutex
	saved := offsets{}
	at := func(tp offsetstore.TopicPartition, next int64) {
		mu.Lock()
		defer mu.Unlock()
		saved[tp] = next
		if saved.reached(ends) {
			done()
		}
	}
	return framework.Hooks{
		Claimed: func(e framework.ClaimedEvent) { at(e.TopicPartition, e.Position.Offset) },
		Saved:   func(e framework.SavedEvent) { at(e.TopicPartition, e.To) },
	}
}

// readTotals reads the counts as any program would.
func readTotals(ctx context.Context, path string) (map[string]int64, error) {
	db, err := stdsql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?mode=ro&_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, `SELECT path, SUM(failed) FROM failed_requests GROUP BY path`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	totals := map[string]int64{}
	for rows.Next() {
		var path string
		var n int64
		if err := rows.Scan(&path, &n); err != nil {
			return nil, err
		}
		totals[path] = n
	}
	return totals, rows.Err()
}
