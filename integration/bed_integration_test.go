//go:build integration

package integration

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gocql/gocql"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/codec"
	"github.com/lockstep-stream/lockstep/integration/servers"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/cassandra"
	"github.com/lockstep-stream/lockstep/sources/kafka"
)

// patience bounds every wait for something that must come. It decides nothing: a
// test that runs into it has failed.
const patience = 2 * time.Minute

// bed is a keyspace and a topic, reached directly, and a pipeline between them that
// adds up values by key, one total for each key and Kafka partition. Each topic of
// a keyspace has totals of its own.
type bed struct {
	t       *testing.T
	topic   string
	kafka   []string
	client  *kgo.Client
	config  cassandra.Config
	session *gocql.Session
	sink    *cassandra.Sink // for looking at positions
}

// item is the value of a record.
type item struct {
	Key   string
	Value int64
}

// total is a row.
type total struct {
	Topic     string `cql:"topic,partition"`
	Partition int32  `cql:"kafka_partition,clustering"`
	Key       string `cql:"key,clustering"`
	Total     int64  `cql:"total"`
}

const totalsSchema = `CREATE TABLE IF NOT EXISTS totals (topic text, kafka_partition int, key text, total bigint, PRIMARY KEY (topic, kafka_partition, key))`

var totals = cassandra.NewTable[total]("totals")

// sumPipeline is the job of every bed.
func sumPipeline() (*framework.Pipeline[cassandra.Write], error) {
	pairs := framework.Map(framework.From(codec.JSON[item]()), func(i item) framework.Keyed[string, int64] {
		return framework.Keyed[string, int64]{Key: i.Key, Value: i.Value}
	})
	sums := framework.ReduceByKey("sum", pairs, func(a, b int64) int64 { return a + b })
	rows := framework.MapErr(sums, func(ctx framework.Context, k framework.Keyed[string, int64]) (cassandra.Write, error) {
		return totals.Insert(total{Topic: ctx.Topic(), Partition: ctx.Partition(), Key: k.Key, Total: k.Value}), nil
	})
	return framework.NewPipeline("sums", rows)
}

// newBed makes the tables of a fresh keyspace, with a copy on each of the nodes, and
// a topic on the brokers.
func newBed(t *testing.T, brokers, nodes string, partitions int32) *bed {
	t.Helper()
	b := unmigratedBed(t, brokers, nodes)
	if err := cassandra.Migrate(t.Context(), b.config); err != nil {
		t.Fatal(err)
	}
	b.look()
	b.connect()
	b.addTopic(partitions)
	return b
}

// unmigratedBed has neither keyspace nor topic yet.
func unmigratedBed(t *testing.T, brokers, nodes string) *bed {
	hosts := strings.Split(nodes, ",")
	return &bed{t: t, kafka: strings.Split(brokers, ","), config: cassandra.Config{
		Hosts: hosts, Keyspace: "bed_" + strings.ToLower(rand.Text()[:16]), Replication: strconv.Itoa(len(hosts)),
		Tables: []cassandra.AnyTable{totals}, Schema: []string{totalsSchema}, Logger: slog.New(slog.DiscardHandler),
	}}
}

// look opens what the test looks at the tables with.
func (b *bed) look() {
	b.t.Helper()
	var err error
	if b.sink, err = cassandra.Open(b.t.Context(), b.config); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = b.sink.Close(context.Background()) })
	cluster := gocql.NewCluster(b.config.Hosts...)
	cluster.Keyspace, cluster.Timeout, cluster.ConnectTimeout = b.config.Keyspace, patience, patience
	cluster.Logger = discard{}
	if b.session, err = cluster.CreateSession(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(b.session.Close)
}

// discard drops what a driver says about servers that a test has stopped.
type discard struct{}

func (discard) Print(...any)          {}
func (discard) Printf(string, ...any) {}
func (discard) Println(...any)        {}

func (b *bed) connect() {
	b.t.Helper()
	var err error
	b.client, err = kgo.NewClient(kgo.SeedBrokers(b.kafka...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.UnknownTopicRetries(-1))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(b.client.Close)
}

func (b *bed) addTopic(partitions int32) {
	b.t.Helper()
	b.topic = "bed-" + strings.ToLower(rand.Text()[:16])
	if _, err := kadm.NewClient(b.client).CreateTopic(b.t.Context(), partitions, 1, nil, b.topic); err != nil {
		b.t.Fatal(err)
	}
}

// on returns the bed with a topic of its own, for a test beside b's.
func (b *bed) on(t *testing.T, partitions int32) *bed {
	t.Helper()
	other := *b
	other.t = t
	other.addTopic(partitions)
	return &other
}

// produce appends one record with each value to a partition.
func (b *bed) produce(partition int32, key string, values ...int64) {
	b.t.Helper()
	if err := b.send(partition, key, values...); err != nil {
		b.t.Fatal(err)
	}
}

// send is produce for other goroutines than the test's.
func (b *bed) send(partition int32, key string, values ...int64) error {
	records := make([]*kgo.Record, 0, len(values))
	for _, v := range values {
		text, err := json.Marshal(item{key, v})
		if err != nil {
			return err
		}
		records = append(records, &kgo.Record{Topic: b.topic, Partition: partition, Value: text})
	}
	return b.client.ProduceSync(b.t.Context(), records...).FirstErr()
}

// total returns what the table has for a key, 0 where there is no row.
func (b *bed) total(partition int32, key string) (sum int64) {
	b.t.Helper()
	eventually(b.t, "an answer to a read", func() bool { // a node may be down, or coming up
		err := b.session.Query("SELECT total FROM totals WHERE topic = ? AND kafka_partition = ? AND key = ?", b.topic, partition, key).
			WithContext(b.t.Context()).Scan(&sum)
		return err == nil || errors.Is(err, gocql.ErrNotFound)
	})
	return sum
}

// position returns where a partition stands, -1 where there is none.
func (b *bed) position(partition int32) int64 {
	b.t.Helper()
	all, err := b.sink.Positions(b.t.Context(), "sums")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, p := range all {
		if p.TopicPartition == (offsetstore.TopicPartition{Topic: b.topic, Partition: partition}) {
			return p.Position.Offset
		}
	}
	return -1
}

// await returns when the position is at offset, and checks the total that belongs
// to it.
func (b *bed) await(partition int32, key string, offset, sum int64) {
	b.t.Helper()
	eventually(b.t, fmt.Sprintf("position %d of partition %d", offset, partition), func() bool { return b.position(partition) >= offset })
	b.want(partition, key, offset, sum)
}

func (b *bed) want(partition int32, key string, offset, sum int64) {
	b.t.Helper()
	if at := b.position(partition); at != offset {
		b.t.Errorf("partition %d is at %d, want %d", partition, at, offset)
	}
	// Rows are there a moment after the position at the latest.
	eventually(b.t, fmt.Sprintf("total %d of %q on partition %d", sum, key, partition), func() bool { return b.total(partition, key) >= sum })
	if got := b.total(partition, key); got != sum {
		b.t.Errorf("total of %q on partition %d is %d, want %d", key, partition, got, sum)
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("%s did not come within %s", what, patience)
		}
	}
}

// running is one instance of the pipeline.
type running struct {
	t     *testing.T
	stop  context.CancelFunc
	done  chan struct{}
	err   error
	mu    sync.Mutex
	saved int             // batches
	sink  *cassandra.Sink // nil until it is open
}

// instance says how one instance of the pipeline differs from the usual.
type instance struct {
	cassandra func(*cassandra.Config)
	kafka     func(*kafka.Config)
	framework func(*framework.Config)
}

// start runs an instance until stop, or the end of the test.
func (b *bed) start(i instance) *running {
	b.t.Helper()
	sinkConfig := b.config
	apply(i.cassandra, &sinkConfig)
	sourceConfig := kafka.Config{
		Brokers: b.kafka, Topics: []string{b.topic}, Group: b.topic, SessionTimeout: 6 * time.Second,
		FetchMaxWait: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	}
	apply(i.kafka, &sourceConfig)
	r := &running{t: b.t, done: make(chan struct{})}
	config := framework.Config{BatchRecords: 2, Logger: slog.New(slog.DiscardHandler), Hooks: framework.Hooks{Saved: r.count}}
	apply(i.framework, &config)
	source, err := kafka.New(sourceConfig)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	pipeline, err := sumPipeline()
	if err != nil {
		b.t.Fatal(err)
	}
	go func() {
		defer close(r.done)
		r.err = runOnce(ctx, pipeline, source, sinkConfig, config, r.opened)
	}()
	b.t.Cleanup(func() { cancel(); <-r.done })
	return r
}

func runOnce(ctx context.Context, p *framework.Pipeline[cassandra.Write], source framework.Source, sinkConfig cassandra.Config, config framework.Config, opened func(*cassandra.Sink)) error {
	sink, err := cassandra.Open(ctx, sinkConfig)
	if err != nil {
		return err
	}
	defer sink.Close(context.Background())
	opened(sink)
	runner, err := framework.NewRunner(p, source, sink, config)
	if err != nil {
		return err
	}
	return runner.Run(ctx)
}

func apply[T any](edit func(*T), to *T) {
	if edit != nil {
		edit(to)
	}
}

func (r *running) opened(s *cassandra.Sink) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sink = s
}

// stats are those of a sink that was opened.
func (r *running) stats() cassandra.Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sink.Stats()
}

func (r *running) count(framework.SavedEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saved++
}

// saves returns how many batches were saved.
func (r *running) saves() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.saved
}

// end stops the instance, and wants it to end well.
func (r *running) end() {
	r.t.Helper()
	r.stop()
	if err := r.wait(); err != nil {
		r.t.Errorf("the pipeline ended with %v", err)
	}
}

// wait returns how it ended.
func (r *running) wait() error {
	r.t.Helper()
	select {
	case <-r.done:
		return r.err
	case <-time.After(patience):
		r.t.Fatal("the pipeline did not end")
		return nil
	}
}

// shared is a bed on the servers of the test run.
func sharedBed(t *testing.T, partitions int32) *bed {
	t.Helper()
	return newBed(t, servers.Kafka(t), servers.Cassandra(t), partitions)
}
