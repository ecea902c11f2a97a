package watermill_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sources/sourcetest"
	watermillsource "github.com/lockstep-stream/lockstep/sources/watermill"
)

// The metrics library that sarama uses keeps one goroutine for the process.
func TestMain(m *testing.M) {
	if isChild() {
		return
	}
	goleak.VerifyTestMain(m, append(leftBehind, goleak.IgnoreAnyFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))...)
}

// leftBehind is what may be left behind where brokers fail.
var leftBehind []goleak.Option

// limit ends what hangs; it decides nothing else.
const limit = time.Minute

// broker is what a test runs against: an in-process Kafka or a real one.
type broker struct {
	t     testing.TB
	addrs []string
	cl    *kgo.Client // for producing and administration
	adm   *kadm.Client
}

func newBroker(t testing.TB, addrs []string, opts ...kgo.Opt) *broker {
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

// fake starts an in-process Kafka.
func fake(t testing.TB, opts ...kfake.Opt) (*kfake.Cluster, *broker) {
	t.Helper()
	opts = append([]kfake.Opt{
		kfake.NumBrokers(1),
		kfake.GroupMinSessionTimeout(100 * time.Millisecond),
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

// config is quick, so that tests are.
func (b *broker) config(group string, topics ...string) watermillsource.KafkaConfig {
	return watermillsource.KafkaConfig{
		Subscriber: kafka.SubscriberConfig{
			Brokers: b.addrs, ConsumerGroup: group, OverwriteSaramaConfig: quick(),
			Unmarshaler: kafka.DefaultMarshaler{}, ReconnectRetrySleep: 50 * time.Millisecond,
		},
		Topics:         topics,
		CheckInterval:  200 * time.Millisecond,
		MirrorInterval: 20 * time.Millisecond,
		Logger:         testLog(b.t),
	}
}

// quick are settings with which nothing waits for long.
func quick() *sarama.Config {
	s := kafka.DefaultSaramaSubscriberConfig()
	s.Consumer.MaxWaitTime = 50 * time.Millisecond
	s.Consumer.Retry.Backoff = 50 * time.Millisecond
	s.Consumer.Group.Session.Timeout = 6 * time.Second
	s.Consumer.Group.Heartbeat.Interval = 50 * time.Millisecond
	s.Consumer.Group.Rebalance.Retry.Backoff = 50 * time.Millisecond
	s.Metadata.Retry.Backoff = 50 * time.Millisecond
	return s
}

// testLog shows the log when a test is run with -v.
func testLog(t testing.TB) watermill.LoggerAdapter {
	if !testing.Verbose() {
		return watermill.NopLogger{}
	}
	return watermill.NewSlogLogger(slog.New(slog.NewTextHandler(t.Output(), nil)))
}

// eventually waits for something that nobody is told of.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// conformance describes the source and b's log to the suite.
func (b *broker) conformance() sourcetest.Harness {
	return sourcetest.Harness{
		Open: func(topic, group string) (framework.Source, error) {
			return watermillsource.NewKafka(b.config(group, topic))
		},
		Create: func(_ context.Context, topic string, partitions int32) error {
			b.made(topic, partitions)
			return nil
		},
		Append: b.appendRecords,
		Gap: func(_ context.Context, tp offsetstore.TopicPartition) error {
			b.abort(tp)
			return nil
		},
		Retain:   b.retain,
		Recreate: b.recreate,
		Evict:    func(_ context.Context, group string) error { b.removeMembers(group); return nil },
	}
}

// made creates a topic, whose name may still be in use by one that is being deleted.
func (b *broker) made(topic string, partitions int32) {
	b.t.Helper()
	eventually(b.t, "the topic's creation", func() bool {
		resp, err := b.adm.CreateTopic(b.t.Context(), partitions, 1, nil, topic)
		return err == nil && resp.Err == nil
	})
	b.cl.ForceMetadataRefresh()
}

func (b *broker) appendRecords(ctx context.Context, tp offsetstore.TopicPartition, records ...framework.Record) error {
	var out []*kgo.Record
	for _, r := range records {
		rec := &kgo.Record{Topic: tp.Topic, Partition: tp.Partition, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp}
		for _, h := range r.Headers {
			rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		out = append(out, rec)
	}
	return b.cl.ProduceSync(ctx, out...).FirstErr()
}

// produce appends values "from".."to-1", one record each.
func (b *broker) produce(topic string, partition int32, from, to int) {
	b.t.Helper()
	var records []framework.Record
	for i := from; i < to; i++ {
		records = append(records, framework.Record{Value: fmt.Appendf(nil, "%d", i)})
	}
	if err := b.appendRecords(b.t.Context(), offsetstore.TopicPartition{Topic: topic, Partition: partition}, records...); err != nil {
		b.t.Fatal(err)
	}
}

// abort writes two records in a transaction that is aborted.
func (b *broker) abort(tp offsetstore.TopicPartition) {
	b.t.Helper()
	tx := newBroker(b.t, b.addrs, kgo.TransactionalID(unique("tx")))
	if err := tx.cl.BeginTransaction(); err != nil {
		b.t.Fatal(err)
	}
	tx.produce(tp.Topic, tp.Partition, 0, 2)
	if err := tx.cl.EndTransaction(b.t.Context(), kgo.TryAbort); err != nil {
		b.t.Fatal(err)
	}
}

func (b *broker) retain(ctx context.Context, tp offsetstore.TopicPartition, start int64) error {
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: tp.Topic, Partition: tp.Partition, At: start})
	resp, err := b.adm.DeleteRecords(ctx, offsets)
	if err != nil {
		return err
	}
	return resp.Error()
}

func (b *broker) recreate(ctx context.Context, topic string, partitions int32) error {
	resp, err := b.adm.DeleteTopics(ctx, topic)
	if err != nil {
		return err
	}
	if err := resp.Error(); err != nil {
		return err
	}
	b.made(topic, partitions)
	b.cl.PurgeTopicsFromClient(topic) // the producer knows the former one
	return nil
}

// removeMembers has the group drop all its members, as an operator can.
func (b *broker) removeMembers(group string) {
	b.t.Helper()
	described, err := b.adm.DescribeGroups(b.t.Context(), group)
	if err != nil {
		b.t.Fatal(err)
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = group
	for _, m := range described[group].Members {
		member := kmsg.NewLeaveGroupRequestMember()
		member.MemberID = m.MemberID
		req.Members = append(req.Members, member)
	}
	if len(req.Members) == 0 {
		b.t.Fatalf("group %s has no members", group)
	}
	resp, err := req.RequestWith(b.t.Context(), b.cl)
	if err != nil || resp.ErrorCode != 0 {
		b.t.Fatalf("removing members: %v, code %d", err, resp.ErrorCode)
	}
}

func (b *broker) groupOffset(group, topic string, partition int32) int64 {
	b.t.Helper()
	offsets, err := b.adm.FetchOffsets(b.t.Context(), group)
	if err != nil {
		b.t.Fatal(err)
	}
	o, ok := offsets.Lookup(topic, partition)
	if !ok {
		return -1
	}
	return o.At
}
