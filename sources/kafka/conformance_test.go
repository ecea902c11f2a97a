package kafka_test

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	kafkasource "github.com/lockstep-stream/lockstep/sources/kafka"
	"github.com/lockstep-stream/lockstep/sources/sourcetest"
)

// features is all there is.
var features = sourcetest.Features{
	Log: true, Retention: true, TopicIDs: true, LeaderEpochs: true,
	Groups: true, Cooperative: true, WholeRecords: true,
}

func TestConformance(t *testing.T) {
	sourcetest.Run(t, features, func(t *testing.T) sourcetest.Harness {
		t.Parallel()
		_, b := fake(t, unique("other"), 1, kfake.NumBrokers(2))
		return b.conformance((*broker).config)
	})
}

// conformance describes the source and b's log to the suite.
func (b *broker) conformance(config func(b *broker, group string, topics ...string) kafkasource.Config) sourcetest.Harness {
	return sourcetest.Harness{
		Open: func(topic, group string) (framework.Source, error) { return kafkasource.New(config(b, group, topic)) },
		Create: func(_ context.Context, topic string, partitions int32) error {
			b.made(topic, partitions)
			return nil
		},
		Append: b.appendRecords,
		Gap: func(_ context.Context, tp offsetstore.TopicPartition) error {
			b.transaction(tp.Topic, tp.Partition, 0, 2, false)
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
