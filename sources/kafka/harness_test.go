package kafka_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/lockstep-stream/lockstep/offsetstore"
	kafkasource "github.com/lockstep-stream/lockstep/sources/kafka"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// The tests wait more than they work: for heartbeats, sessions and fetches.
	if p := flag.Lookup("test.parallel"); p.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = p.Value.Set(strconv.Itoa(testsAtOnce))
	}
	goleak.VerifyTestMain(m)
}

const testsAtOnce = 8

// broker is what a test runs against: an in-process Kafka or a real one.
type broker struct {
	t     *testing.T
	addrs []string
	cl    *kgo.Client // for producing and administration
	adm   *kadm.Client
}

func newBroker(t *testing.T, addrs []string, opts ...kgo.Opt) *broker {
	t.Helper()
	opts = append([]kgo.Opt{
		kgo.SeedBrokers(addrs...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(10 * time.Millisecond),
	}, opts...)
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return &broker{t: t, addrs: addrs, cl: cl, adm: kadm.NewClient(cl)}
}

// fake starts an in-process Kafka with one topic.
func fake(t *testing.T, topic string, partitions int32, opts ...kfake.Opt) (*kfake.Cluster, *broker) {
	t.Helper()
	opts = append([]kfake.Opt{
		kfake.NumBrokers(1),
		kfake.GroupMinSessionTimeout(100 * time.Millisecond),
		kfake.SeedTopics(partitions, topic),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}),
	}, opts...)
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, newBroker(t, c.ListenAddrs())
}

// unique returns a name that nothing else uses.
func unique(prefix string) string { return prefix + "-" + strings.ToLower(rand.Text()[:10]) }

// produce appends values "from".."to-1", one record each, to a partition.
func (b *broker) produce(topic string, partition int32, from, to int) {
	b.t.Helper()
	var recs []*kgo.Record
	for i := from; i < to; i++ {
		recs = append(recs, &kgo.Record{
			Topic: topic, Partition: partition,
			Key:     fmt.Appendf(nil, "k%d", i),
			Value:   fmt.Appendf(nil, "%d", i),
			Headers: []kgo.RecordHeader{{Key: "n", Value: fmt.Appendf(nil, "%d", i)}},
		})
	}
	if err := b.cl.ProduceSync(b.t.Context(), recs...).FirstErr(); err != nil {
		b.t.Fatal(err)
	}
}

func (b *broker) groupOffset(group, topic string, partition int32) (int64, bool) {
	b.t.Helper()
	offsets, err := b.adm.FetchOffsets(b.t.Context(), group)
	if err != nil {
		b.t.Fatal(err)
	}
	o, ok := offsets.Lookup(topic, partition)
	return o.At, ok && o.At >= 0
}

// waitMirror waits until the group has committed offset.
func (b *broker) waitMirror(group, topic string, partition int32, offset int64) {
	b.t.Helper()
	eventually(b.t, fmt.Sprintf("a commit of %d", offset), func() bool {
		at, ok := b.groupOffset(group, topic, partition)
		return ok && at == offset
	})
}

// eventually waits for something the recorder is not told.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// testLog shows the log when a test is run with -v.
func testLog(t *testing.T) *slog.Logger {
	if !testing.Verbose() {
		return quiet()
	}
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

func (b *broker) config(group string, topics ...string) kafkasource.Config {
	return kafkasource.Config{
		Brokers:        b.addrs,
		Topics:         topics,
		Group:          group,
		MetadataMaxAge: 200 * time.Millisecond,
		MirrorInterval: 20 * time.Millisecond,
		FetchMaxWait:   50 * time.Millisecond,
		Logger:         testLog(b.t),
	}
}

// running is a source under test.
type running struct {
	t    *testing.T
	stop context.CancelFunc
	done chan struct{}
	err  error
}

// run starts a source and stops it at the end of the test at the latest.
func run(t *testing.T, cfg kafkasource.Config, lanes *recorder) *running {
	t.Helper()
	src, err := kafkasource.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: t, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = src.Run(ctx, lanes)
	}()
	t.Cleanup(func() {
		cancel()
		<-r.done
		lanes.starters.Wait()
	})
	return r
}

// end stops the source and requires that it ends without an error.
func (r *running) end() {
	r.t.Helper()
	r.stop()
	r.wait()
	if r.err != nil {
		r.t.Fatalf("Run returned %v, want nil", r.err)
	}
}

func (r *running) wait() {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(limit):
		r.t.Fatal("Run did not return")
	}
}

func tp(topic string, partition int32) offsetstore.TopicPartition {
	return offsetstore.TopicPartition{Topic: topic, Partition: partition}
}

func millis(ms int64) time.Time { return time.UnixMilli(ms) }

// produceAt appends one record with each timestamp, in milliseconds.
func (b *broker) produceAt(topic string, partition int32, timestamps ...int64) {
	b.t.Helper()
	for _, ms := range timestamps {
		rec := &kgo.Record{Topic: topic, Partition: partition, Timestamp: millis(ms), Value: []byte("v")}
		if err := b.cl.ProduceSync(b.t.Context(), rec).FirstErr(); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *broker) tombstone(topic string, partition int32, key string) {
	b.t.Helper()
	rec := &kgo.Record{Topic: topic, Partition: partition, Key: []byte(key)}
	if err := b.cl.ProduceSync(b.t.Context(), rec).FirstErr(); err != nil {
		b.t.Fatal(err)
	}
}

// openTransaction produces in a transaction and returns what commits it.
func (b *broker) openTransaction(topic string, partition int32, from, to int) (commit func()) {
	b.t.Helper()
	tx := newBroker(b.t, b.addrs, kgo.TransactionalID(unique("tx")))
	if err := tx.cl.BeginTransaction(); err != nil {
		b.t.Fatal(err)
	}
	tx.produce(topic, partition, from, to)
	return func() {
		if err := tx.cl.EndTransaction(b.t.Context(), kgo.TryCommit); err != nil {
			b.t.Fatal(err)
		}
	}
}

// transaction produces in a transaction that is committed or aborted.
func (b *broker) transaction(topic string, partition int32, from, to int, commit bool) {
	b.t.Helper()
	tx := newBroker(b.t, b.addrs, kgo.TransactionalID(unique("tx")))
	if err := tx.cl.BeginTransaction(); err != nil {
		b.t.Fatal(err)
	}
	tx.produce(topic, partition, from, to)
	if err := tx.cl.EndTransaction(b.t.Context(), kgo.TransactionEndTry(commit)); err != nil {
		b.t.Fatal(err)
	}
}

// syncBuffer is a log that can be read while it is written.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *syncBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(b)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

func (s *syncBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(s, nil)) }
