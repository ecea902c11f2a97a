//go:build integration

package kafka_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	kafkasource "github.com/lockstep-stream/lockstep/sources/kafka"
)

// realKafka connects to the Kafka that LOCKSTEP_TEST_KAFKA names and creates a topic.
func realKafka(t *testing.T, topic string, partitions int32) *broker {
	t.Helper()
	list := os.Getenv("LOCKSTEP_TEST_KAFKA")
	if list == "" {
		t.Fatal("LOCKSTEP_TEST_KAFKA is not set; give a Kafka as host:port")
	}
	addrs, err := offsetstore.ParseBrokers("LOCKSTEP_TEST_KAFKA", list)
	if err != nil {
		t.Fatal(err)
	}
	b := newBroker(t, addrs, kgo.UnknownTopicRetries(-1)) // a new topic is not known everywhere at once
	b.create(topic, partitions)
	t.Cleanup(func() { _, _ = b.adm.DeleteTopics(context.Background(), topic) })
	return b
}

func (b *broker) create(topic string, partitions int32) {
	b.t.Helper()
	eventually(b.t, "the topic's creation", func() bool { // the name may still be in use by a topic that is being deleted
		resp, err := b.adm.CreateTopic(b.t.Context(), partitions, 1, nil, topic)
		return err == nil && resp.Err == nil
	})
	b.cl.ForceMetadataRefresh()
}

func (b *broker) realConfig(group, topic string) kafkasource.Config {
	cfg := b.config(group, topic)
	cfg.SessionTimeout = 6 * time.Second // the least a broker allows by default
	return cfg
}

func TestRealKafkaStartsSeeksAndReadsOn(t *testing.T) {
	topic := unique("real-start")
	b := realKafka(t, topic, 3)
	for p := range int32(3) {
		b.produce(topic, p, 0, 1000)
	}
	lanes := newRecorder(t)
	lanes.start = func(tp offsetstore.TopicPartition) offsetstore.Position {
		return offsetstore.At(int64(10 * tp.Partition))
	}
	r := run(t, b.realConfig(unique("group"), topic), lanes)
	for p := range int32(3) {
		l := lanes.lane(topic, p)
		lanes.waitNext(l, 1000)
		lanes.requireOffsets(l, sequence(int64(10*p), 1000))
	}
	l := lanes.lane(topic, 0)
	l.p.Pause()
	if err := startQuietly(lanes, l, 990); err != nil {
		t.Fatal(err)
	}
	l.p.Resume()
	lanes.waitNext(l, 1000)
	lanes.requireOffsets(l, sequence(990, 1000))
	b.produce(topic, 0, 1000, 1005)
	lanes.waitNext(l, 1005)
	r.end()
}

func TestRealKafkaRefusesPositionsOutsideTheLog(t *testing.T) {
	topic := unique("real-outside")
	b := realKafka(t, topic, 1)
	b.produce(topic, 0, 0, 20)
	b.deleteRecords(topic, 0, 5)
	lanes := newRecorder(t)
	run(t, b.realConfig(unique("group"), topic), lanes)
	p := lanes.lane(topic, 0).p
	for offset, want := range map[int64]error{4: framework.ErrBelowLogStart, 21: framework.ErrAboveLogEnd, 5: nil, 20: nil} {
		if err := p.Start(t.Context(), offsetstore.At(offset)); !errors.Is(err, want) {
			t.Errorf("position %d: got %v, want %v", offset, err, want)
		}
	}
	if err := p.Start(t.Context(), offsetstore.Position{Offset: 10, LeaderEpoch: 99}); !errors.Is(err, framework.ErrAboveLogEnd) {
		t.Errorf("an epoch that never was: got %v, want %v", err, framework.ErrAboveLogEnd)
	}
	if err := p.Start(t.Context(), offsetstore.Position{Offset: 10, LeaderEpoch: 0}); err != nil {
		t.Errorf("the epoch of the log: %v", err)
	}
}

func TestRealKafkaRetentionFailsARunningPartition(t *testing.T) {
	topic := unique("real-retention")
	b := realKafka(t, topic, 2)
	b.produce(topic, 0, 0, 10)
	lanes := newRecorder(t)
	lanes.start = from(0)
	run(t, b.realConfig(unique("group"), topic), lanes)
	l, other := lanes.lane(topic, 0), lanes.lane(topic, 1)
	lanes.waitNext(l, 10)
	l.p.Pause()
	b.produce(topic, 1, 0, 1)
	lanes.waitNext(other, 1) // from here on the pause is in effect
	b.produce(topic, 0, 10, 100)
	b.deleteRecords(topic, 0, 60)
	l.p.Resume()
	lanes.wait("the failure", func() bool { return l.failed != nil })
	if !errors.Is(l.failed, framework.ErrBelowLogStart) {
		t.Errorf("got %v, want %v", l.failed, framework.ErrBelowLogStart)
	}
}

func TestRealKafkaMovesPartitionsBetweenInstances(t *testing.T) {
	topic, group := unique("real-moves"), unique("group")
	const partitions = 4
	b := realKafka(t, topic, partitions)
	produced := 0
	sink := newStore()
	produceAndRead := func() {
		t.Helper()
		for p := range int32(partitions) {
			b.produce(topic, p, produced, produced+200)
		}
		produced += 200
		eventually(t, "reading on", func() bool {
			for p := range int32(partitions) {
				if sink.through(tp(topic, p)) != int64(produced) {
					return false
				}
			}
			return true
		})
	}
	first, second := sink.lanes(t), sink.lanes(t)
	run(t, b.realConfig(group, topic), first)
	first.wait("all at the first", func() bool { return first.assigned() == partitions })
	produceAndRead()
	other := run(t, b.realConfig(group, topic), second)
	second.wait("half at the second", func() bool { return second.assigned() == partitions/2 })
	produceAndRead()
	other.end()
	first.wait("all back", func() bool { return first.assigned() == partitions })
	produceAndRead()
	sink.requireComplete(t, topic, partitions, int64(produced))
}

func TestRealKafkaMirrorsAndConfirms(t *testing.T) {
	topic, group := unique("real-mirror"), unique("group")
	b := realKafka(t, topic, 1)
	b.produce(topic, 0, 0, 10)
	lanes := newRecorder(t)
	r := run(t, b.realConfig(group, topic), lanes)
	l := lanes.lane(topic, 0)
	if err := l.p.Confirm(t.Context()); err != nil {
		t.Errorf("before the start: %v", err)
	}
	lanes.begin(l, offsetstore.At(0))
	lanes.waitNext(l, 10)
	if err := l.p.Confirm(t.Context()); err != nil {
		t.Errorf("while running: %v", err)
	}
	l.p.Mirror(offsetstore.Position{Offset: 8, LeaderEpoch: 0})
	eventually(t, "the mirrored position", func() bool { at, _ := b.groupOffset(group, topic, 0); return at == 8 })
	b.removeMembers(group)
	if err := l.p.Confirm(t.Context()); !errors.Is(err, framework.ErrNotOwner) {
		t.Errorf("after the member was removed: got %v, want %v", err, framework.ErrNotOwner)
	}
	lanes.wait("the loss", func() bool { return l.dead })
	fresh := lanes.lane(topic, 0)
	lanes.begin(fresh, offsetstore.At(8))
	fresh.p.Mirror(offsetstore.At(9))
	r.end()
	if at, _ := b.groupOffset(group, topic, 0); at != 9 {
		t.Errorf("the group is at %d after the end, want 9", at)
	}
}

func TestRealKafkaNoticesATopicThatWasMadeAgain(t *testing.T) {
	topic := unique("real-recreated")
	b := realKafka(t, topic, 1)
	b.produce(topic, 0, 0, 10)
	lanes := newRecorder(t)
	lanes.start = from(0)
	run(t, b.realConfig(unique("group"), topic), lanes)
	l := lanes.lane(topic, 0)
	lanes.waitNext(l, 10)
	start, err := l.p.Resolve(t.Context(), offsetstore.StartRules{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the topic's deletion", func() bool {
		resp, err := b.adm.DeleteTopics(t.Context(), topic)
		return err == nil && resp.Error() == nil
	})
	b.create(topic, 1)
	lanes.wait("the failure", func() bool { return l.failed != nil })
	if !errors.Is(l.failed, framework.ErrTopicRecreated) {
		t.Errorf("got %v, want %v", l.failed, framework.ErrTopicRecreated)
	}

	again := newRecorder(t)
	run(t, b.realConfig(unique("group"), topic), again)
	old := offsetstore.Position{Offset: 0, LeaderEpoch: -1, TopicID: start.TopicID}
	if err := again.lane(topic, 0).p.Start(t.Context(), old); !errors.Is(err, framework.ErrTopicRecreated) {
		t.Errorf("a start with the old identity: got %v, want %v", err, framework.ErrTopicRecreated)
	}
}

func TestRealKafkaGapsOfTransactions(t *testing.T) {
	topic := unique("real-gaps")
	b := realKafka(t, topic, 1)
	b.transaction(topic, 0, 0, 5, true)
	b.transaction(topic, 0, 5, 10, false)
	b.transaction(topic, 0, 10, 15, true)
	lanes := newRecorder(t)
	lanes.start = from(2)
	run(t, b.realConfig(unique("group"), topic), lanes)
	l := lanes.lane(topic, 0)
	lanes.waitNext(l, 17)
	lanes.requireOffsets(l, append(sequence(2, 5), sequence(12, 17)...))
}

func (b *broker) deleteRecords(topic string, partition int32, before int64) {
	b.t.Helper()
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: topic, Partition: partition, At: before})
	resp, err := b.adm.DeleteRecords(b.t.Context(), offsets)
	if err != nil || resp.Error() != nil {
		b.t.Fatal(err, resp.Error())
	}
}
