package kafkastore_test

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/offsetstore/kafkastore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bed is an in-process Kafka with topics "in" and "other", three partitions each,
// and ten records in every partition of "in", a second apart from second 1000 on.
type bed struct {
	t       *testing.T
	cluster *kfake.Cluster
	options []kgo.Opt // of every client
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{t: t}
	b.start()
	return b
}

// inVirtualTime runs a test on a bed whose network and clock are virtual.
func inVirtualTime(t *testing.T, test func(t *testing.T, b *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var net kfake.VirtualNetwork
		b := &bed{t: t, options: []kgo.Opt{kgo.Dialer(net.DialContext)}}
		b.start(kfake.Ports(9092, 9093, 9094), kfake.ListenFn(net.Listen))
		test(t, b)
	})
}

func (b *bed) start(opts ...kfake.Opt) {
	b.t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(3), kfake.SeedTopics(3, "in", "other")}, opts...)...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(c.Close)
	b.cluster = c
	var records []*kgo.Record
	for p := range int32(3) {
		for i := range int64(10) {
			records = append(records, at(p, 1000+i))
		}
	}
	b.produce(records...)
}

// at is a record of topic "in", produced at a second.
func at(partition int32, second int64) *kgo.Record {
	return &kgo.Record{Topic: "in", Partition: partition, Timestamp: time.Unix(second, 0), Value: []byte("v")}
}

func (b *bed) produce(records ...*kgo.Record) {
	b.t.Helper()
	cl := b.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer cl.Close()
	if err := cl.ProduceSync(b.t.Context(), records...).FirstErr(); err != nil {
		b.t.Error(err) // not in the test's own goroutine everywhere
	}
}

func (b *bed) client(opts ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	opts = append(opts, kgo.SeedBrokers(b.cluster.ListenAddrs()...))
	cl, err := kgo.NewClient(append(opts, b.options...)...)
	if err != nil {
		b.t.Fatal(err)
	}
	return cl
}

// open returns a store on topic "in" unless change says otherwise.
func (b *bed) open(change func(*kafkastore.Config)) *kafkastore.Store {
	b.t.Helper()
	cfg := kafkastore.Config{
		Brokers: b.cluster.ListenAddrs(),
		Topics:  []string{"in"},
		Group:   "nightly",
		Pause:   time.Millisecond,
		Logger:  slog.New(slog.DiscardHandler),
		Options: b.options,
	}
	if change != nil {
		change(&cfg)
	}
	s, err := kafkastore.New(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(s.Close)
	return s
}

func in(partition int32) offsetstore.TopicPartition {
	return offsetstore.TopicPartition{Topic: "in", Partition: partition}
}

func done(partition int32, from, to int64, metadata string) offsetstore.PartitionRange {
	return offsetstore.PartitionRange{TopicPartition: in(partition), Range: offsetstore.Range{From: from, To: to}, Metadata: metadata}
}

// offsets returns where each partition of "in" starts, in order, as text.
func offsets(t *testing.T, s *kafkastore.Store) []string {
	t.Helper()
	starts, err := s.Starts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for p := range int32(len(starts)) {
		texts = append(texts, fmt.Sprint(starts[in(p)]))
	}
	return texts
}
