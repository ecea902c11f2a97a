package watermill_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/codec"
	"github.com/lockstep-stream/lockstep/sinks/sql"
	watermillsource "github.com/lockstep-stream/lockstep/sources/watermill"
)

// saved is a row for each record. It is inserted, so that a record that counts
// twice would be refused.
type saved struct {
	Partition int32  `db:"partition,key"`
	Offset    int64  `db:"record_offset,key"`
	Value     string `db:"value"`
	Owner     string `db:"owner"`
}

// counted is how many records a partition had.
type counted struct {
	Partition int32 `db:"partition,key"`
	Records   int64 `db:"records"`
}

var (
	savedRows   = sql.NewTable[saved]("saved")
	countedRows = sql.NewTable[counted]("counted")
)

const savedSchema = `
CREATE TABLE IF NOT EXISTS saved (partition INTEGER, record_offset INTEGER, value TEXT NOT NULL, owner TEXT NOT NULL, PRIMARY KEY (partition, record_offset));
CREATE TABLE IF NOT EXISTS counted (partition INTEGER PRIMARY KEY, records INTEGER NOT NULL);`

func openSaved(ctx context.Context, file string) (*sql.Sink, error) {
	sink, err := sql.Open(ctx, sql.Config{DSN: "sqlite://" + file, Tables: []sql.AnyTable{savedRows, countedRows}, Schema: []string{savedSchema}})
	if err != nil {
		return nil, err
	}
	if err := sink.Migrate(ctx); err != nil {
		return nil, errors.Join(err, sink.Close(ctx))
	}
	return sink, nil
}

// savingPipeline saves each record, and counts.
func savingPipeline(owner string) (*framework.Pipeline[sql.Write], error) {
	values := framework.From(codec.String())
	rows := framework.MapErr(values, func(c framework.Context, v string) (sql.Write, error) {
		return savedRows.Insert(saved{c.Partition(), c.Record().Offset, v, owner}), nil
	})
	ones := framework.Map(values, func(string) framework.Keyed[string, int64] {
		return framework.Keyed[string, int64]{Key: "records", Value: 1}
	})
	counts := framework.MapErr(framework.ReduceByKey("counted", ones, func(a, b int64) int64 { return a + b }), func(c framework.Context, n framework.Keyed[string, int64]) (sql.Write, error) {
		return countedRows.Upsert(counted{c.Partition(), n.Value}), nil
	})
	return framework.NewPipeline("saving", framework.Merge(rows, counts))
}

// childVariable holds the settings of a process of a group, which the test binary
// is when it is set.
const childVariable = "WATERMILL_TEST_CHILD"

// child is one process of a group.
type child struct {
	Brokers      []string
	Topic, Group string
	Instance     string // static member, unless ""
	Owner        string
	File         string
}

// isChild runs a process of a group, if that is what this one is.
func isChild() bool {
	text := os.Getenv(childVariable)
	if text == "" {
		return false
	}
	var c child
	err := json.Unmarshal([]byte(text), &c)
	if err == nil {
		err = c.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

func (c *child) run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	sink, err := openSaved(ctx, c.File)
	if err != nil {
		return err
	}
	settings := quick()
	settings.Version = sarama.V2_8_0_0
	settings.Consumer.Group.InstanceId = c.Instance
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	err = runSaving(ctx, sink, c.Owner, watermillsource.KafkaConfig{
		Subscriber: kafka.SubscriberConfig{Brokers: c.Brokers, ConsumerGroup: c.Group, OverwriteSaramaConfig: settings, Unmarshaler: kafka.DefaultMarshaler{}},
		Topics:     []string{c.Topic}, MirrorInterval: 20 * time.Millisecond, Logger: watermill.NewSlogLogger(log),
	})
	return errors.Join(err, sink.Close(context.WithoutCancel(ctx)))
}

// runSaving runs the pipeline until ctx ends.
func runSaving(ctx context.Context, sink *sql.Sink, owner string, cfg watermillsource.KafkaConfig) error {
	pipeline, err := savingPipeline(owner)
	if err != nil {
		return err
	}
	source, err := watermillsource.NewKafka(cfg)
	if err != nil {
		return err
	}
	runner, err := framework.NewRunner(pipeline, source, sink, framework.Config{BatchRecords: 20, Logger: watermillsource.NewLogger(cfg.Logger)})
	if err != nil {
		return err
	}
	return runner.Run(ctx)
}
