//go:build integration

package watermill_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	kafkasource "github.com/lockstep-stream/lockstep/sources/kafka"
	"github.com/lockstep-stream/lockstep/sources/sourcetest"
	watermillsource "github.com/lockstep-stream/lockstep/sources/watermill"
)

// realKafka connects to the Kafka that LOCKSTEP_TEST_KAFKA names.
func realKafka(t testing.TB) *broker {
	t.Helper()
	list := os.Getenv("LOCKSTEP_TEST_KAFKA")
	if list == "" {
		t.Fatal("LOCKSTEP_TEST_KAFKA is not set; give a Kafka as host:port")
	}
	addrs, err := offsetstore.ParseBrokers("LOCKSTEP_TEST_KAFKA", list)
	if err != nil {
		t.Fatal(err)
	}
	return newBroker(t, addrs, kgo.UnknownTopicRetries(-1)) // a new topic is not known everywhere at once
}

func TestRealKafkaConformance(t *testing.T) {
	sourcetest.Run(t, features, func(t *testing.T) sourcetest.Harness {
		t.Parallel()
		return realKafka(t).conformance()
	})
}

// BenchmarkRead compares the two sources on one log, without a pipeline: what a
// record costs on its way from the broker to the lanes.
func BenchmarkRead(b *testing.B) {
	const records = 300_000
	broker := realKafka(b)
	for _, partitions := range []int32{1, 4} {
		topic := unique("bench")
		broker.made(topic, partitions)
		b.Cleanup(func() { _, _ = broker.adm.DeleteTopics(context.Background(), topic) })
		for n := range partitions {
			broker.produceMany(topic, n, records/int(partitions))
		}
		for name, open := range map[string]func() (framework.Source, error){
			"kafka": func() (framework.Source, error) {
				return kafkasource.New(kafkasource.Config{Brokers: broker.addrs, Topics: []string{topic}, Group: unique("bench")})
			},
			"watermill": func() (framework.Source, error) {
				cfg := broker.config(unique("bench"), topic)
				cfg.CheckInterval = 10 * time.Second
				return watermillsource.NewKafka(cfg)
			},
		} {
			b.Run(fmt.Sprintf("%s/partitions=%d", name, partitions), func(b *testing.B) {
				for b.Loop() {
					readAll(b, open, records)
				}
			})
		}
	}
}

// produceMany appends values of 120 bytes.
func (b *broker) produceMany(topic string, partition int32, records int) {
	b.t.Helper()
	value := make([]byte, 120)
	for range records {
		b.cl.Produce(context.Background(), &kgo.Record{Topic: topic, Partition: partition, Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				b.t.Error(err)
			}
		})
	}
	if err := b.cl.Flush(context.Background()); err != nil {
		b.t.Fatal(err)
	}
}

func readAll(b *testing.B, open func() (framework.Source, error), records int64) {
	src, err := open()
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	l := &counter{want: records, end: cancel}
	if err := src.Run(ctx, l); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(records)/l.took.Seconds(), "records/s")
}

// counter is lanes that count, from the first record to the last.
type counter struct {
	want  int64
	end   func()
	got   atomic.Int64
	first atomic.Int64
	took  time.Duration
}

func (c *counter) Assigned(ps []framework.Partition) {
	for _, p := range ps {
		go func() {
			if p.Start(context.Background(), offsetstore.At(0)) == nil {
				p.Resume()
			}
		}()
	}
}

func (c *counter) Records(_ framework.Partition, records []framework.Record, _ int64) {
	c.first.CompareAndSwap(0, time.Now().UnixNano())
	if c.got.Add(int64(len(records))) == c.want {
		c.took = time.Since(time.Unix(0, c.first.Load()))
		c.end()
	}
}

func (c *counter) Revoked(context.Context, []framework.Partition) {}
func (c *counter) Lost([]framework.Partition)                     {}
func (c *counter) Failed(framework.Partition, error)              {}
