package kafkastore_test

import (
	"fmt"
	"log/slog"
	"testing"
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
}

func newBed(t *testing.T, opts ...kfake.Opt) *bed {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(3), kfake.SeedTopics(3, "in", "other")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	b := &bed{t, c}
	b.produce()
	return b
}

func (b *bed) produce() {
	b.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		b.t.Fatal(err)
	}
	defer cl.Close()
	var records []*kgo.Record
	for p := range int32(3) {
		for i := range int64(10) {
			records = append(records, &kgo.Record{Topic: "in", Partition: p, Timestamp: time.Unix(1000+i, 0), Value: []byte("v")})
		}
	}
	if err := cl.ProduceSync(b.t.Context(), records...).FirstErr(); err != nil {
		b.t.Fatal(err)
	}
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
