package kafka_test

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// requireFailed waits until a partition has failed with want, and checks that
// the others go on.
func requireFailed(t *testing.T, b *broker, lanes *recorder, failed, other *lane, want error) {
	t.Helper()
	lanes.wait("the failure", func() bool { return failed.failed != nil })
	lanes.mu.Lock()
	err := failed.failed
	next := max(other.next(), 0)
	lanes.mu.Unlock()
	if !errors.Is(err, want) {
		t.Fatalf("failed with %v, want %v", err, want)
	}
	o := other.p.TopicPartition()
	for range 10 {
		b.produce(o.Topic, o.Partition, int(next), int(next)+1)
		next++
		lanes.waitNext(other, next)
	}
}

// requireLeftAlone is requireFailed, and checks that the failed partition is not
// fetched any more: an error that comes at once would come again and again.
func requireLeftAlone(t *testing.T, c *kfake.Cluster, b *broker, lanes *recorder, failed, other *lane, want error) {
	t.Helper()
	lanes.wait("the failure", func() bool { return failed.failed != nil })
	f := failed.p.TopicPartition()
	fetches := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: f.Topic, Partitions: []int32{f.Partition}, Count: -1, Observe: true})
	defer fetches.Remove()
	requireFailed(t, b, lanes, failed, other, want)
	if n := fetches.Hits(); n > 1 {
		t.Errorf("the failed partition is still being fetched (%d times)", n)
	}
}

func TestRetentionThatOvertakesAPartitionFailsItAlone(t *testing.T) {
	t.Parallel()
	topic := unique("retention")
	c, b := fake(t, topic, 2)
	b.produce(topic, 0, 0, 100)
	lanes := newRecorder(t)
	lanes.start = from(0)
	run(t, b.config(unique("group"), topic), lanes)
	l, other := lanes.lane(topic, 0), lanes.lane(topic, 1)
	lanes.waitNext(l, 100)
	lanes.waitStarted(other)
	l.p.Pause()
	b.produce(topic, 1, 0, 1)
	lanes.waitNext(other, 1) // from here on the pause is in effect
	b.produce(topic, 0, 100, 200)
	if err := c.DeleteRecords(topic, 0, 150); err != nil {
		t.Fatal(err)
	}
	before := len(lanes.offsets(l))
	l.p.Resume()
	requireLeftAlone(t, c, b, lanes, l, other, framework.ErrBelowLogStart)

	var position *framework.PositionError
	if !errors.As(l.failed, &position) || position.LogStart != 150 || position.LogEnd != 200 || position.Position.Offset < 100 || position.Position.Offset >= 150 {
		t.Errorf("the error lacks what is known: %+v", position)
	}
	if got := lanes.offsets(l)[before:]; len(got) > 0 && got[len(got)-1] >= 150 {
		t.Errorf("delivered %v: the client moved by itself", got)
	}
}

func TestATopicMadeAgainFailsItsPartitions(t *testing.T) {
	t.Parallel()
	topic, steady := unique("recreated"), unique("steady")
	c, b := fake(t, topic, 1, kfake.SeedTopics(1, steady))
	b.produce(topic, 0, 0, 10)
	b.produce(steady, 0, 0, 10)
	lanes := newRecorder(t)
	lanes.start = from(0)
	run(t, b.config(unique("group"), topic, steady), lanes)
	l, other := lanes.lane(topic, 0), lanes.lane(steady, 0)
	lanes.waitNext(l, 10)
	lanes.waitNext(other, 10)
	if err := c.DeleteTopic(topic); err != nil {
		t.Fatal(err)
	}
	if err := c.CreateTopic(topic, 1, nil); err != nil {
		t.Fatal(err)
	}
	requireFailed(t, b, lanes, l, other, framework.ErrTopicRecreated)
	lanes.requireOffsets(l, sequence(0, 10))
}

// Once the operator has decided, the same process can read the new topic.
func TestATopicMadeAgainCanBeStartedAnew(t *testing.T) {
	t.Parallel()
	topic := unique("renewed")
	c, b := fake(t, topic, 1)
	b.produce(topic, 0, 0, 10)
	lanes := newRecorder(t)
	run(t, b.config(unique("group"), topic), lanes)
	l := lanes.lane(topic, 0)
	lanes.begin(l, offsetstore.At(0))
	lanes.waitNext(l, 10)
	if err := c.DeleteTopic(topic); err != nil {
		t.Fatal(err)
	}
	if err := c.CreateTopic(topic, 1, nil); err != nil {
		t.Fatal(err)
	}
	lanes.wait("the failure", func() bool { return l.failed != nil })
	admin := newBroker(t, b.addrs)
	admin.produce(topic, 0, 0, 3)

	// The old assignment cannot read it any more, a new one can.
	if err := l.p.Start(t.Context(), offsetstore.At(0)); !errors.Is(err, framework.ErrNotOwner) {
		t.Errorf("got %v, want %v", err, framework.ErrNotOwner)
	}
	lanes.wait("a new assignment", func() bool { n := lanes.current[tp(topic, 0)]; return n != l && !n.dead })
	fresh := lanes.lane(topic, 0)
	lanes.begin(fresh, offsetstore.Position{LeaderEpoch: -1, TopicID: offsetstore.TopicID(c.TopicInfo(topic).TopicID)})
	lanes.waitNext(fresh, 3)
	lanes.requireOffsets(fresh, sequence(0, 3))
}

func TestATopicThatWasDeletedFailsItsPartitions(t *testing.T) {
	t.Parallel()
	topic, steady := unique("deleted"), unique("steady")
	c, b := fake(t, topic, 1, kfake.SeedTopics(1, steady))
	b.produce(topic, 0, 0, 10)
	b.produce(steady, 0, 0, 10)
	lanes := newRecorder(t)
	lanes.start = from(0)
	cfg := b.config(unique("group"), topic, steady)
	cfg.TopicWait = 100 * time.Millisecond
	run(t, cfg, lanes)
	l, other := lanes.lane(topic, 0), lanes.lane(steady, 0)
	lanes.waitNext(l, 10)
	lanes.waitNext(other, 10)
	if err := c.DeleteTopic(topic); err != nil {
		t.Fatal(err)
	}
	requireFailed(t, b, lanes, l, other, framework.ErrConfig)
	if !strings.Contains(l.failed.Error(), topic) {
		t.Errorf("%q does not name the topic", l.failed)
	}
}

// When a partition moves to another leader the client compares epochs. If the
// log was cut, it reports the loss and goes on below, with other records.
func TestATruncatedLogFailsThePartition(t *testing.T) {
	t.Parallel()
	topic := unique("truncated")
	c, b := fake(t, topic, 2, kfake.NumBrokers(2))
	b.produce(topic, 0, 0, 10)
	lanes := newRecorder(t)
	lanes.start = from(0)
	run(t, b.config(unique("group"), topic), lanes)
	l, other := lanes.lane(topic, 0), lanes.lane(topic, 1)
	lanes.waitNext(l, 10)
	b.produce(topic, 1, 0, 1)
	lanes.waitNext(other, 1)

	c.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return cutAt(kreq.(*kmsg.OffsetForLeaderEpochRequest), 4), nil, true
	})
	if err := c.MoveTopicPartition(topic, 0, 1-c.LeaderFor(topic, 0)); err != nil {
		t.Fatal(err)
	}
	b.produce(topic, 0, 10, 20)
	requireLeftAlone(t, c, b, lanes, l, other, framework.ErrAboveLogEnd)
	got := lanes.offsets(l)
	for i, o := range got {
		if o != int64(i) {
			t.Fatalf("delivered %v: the client moved by itself", got)
		}
	}
}

// The client ignores a seek to where it believes it is, even if it has moved
// back since. What it then reads from below is not delivered.
func TestAfterAFailureTheSamePositionCanBeStartedAgain(t *testing.T) {
	t.Parallel()
	topic := unique("again")
	c, b := fake(t, topic, 1, kfake.NumBrokers(2))
	b.produce(topic, 0, 0, 10)
	lanes := newRecorder(t)
	at := offsetstore.Position{Offset: 10, LeaderEpoch: 0}
	lanes.start = func(offsetstore.TopicPartition) offsetstore.Position { return at }
	run(t, b.config(unique("group"), topic), lanes)
	l := lanes.lane(topic, 0)
	lanes.waitStarted(l)
	var honest atomic.Bool
	c.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if honest.Load() {
			return nil, nil, false
		}
		return cutAt(kreq.(*kmsg.OffsetForLeaderEpochRequest), 4), nil, true
	})
	if err := c.MoveTopicPartition(topic, 0, 1-c.LeaderFor(topic, 0)); err != nil {
		t.Fatal(err)
	}
	b.cl.ForceMetadataRefresh()
	lanes.wait("the failure", func() bool { return l.failed != nil })
	honest.Store(true)
	lanes.begin(l, at)
	b.produce(topic, 0, 10, 20)
	lanes.waitNext(l, 20)
	lanes.requireOffsets(l, sequence(10, 20))
}

// cutAt answers that every epoch ended at offset.
func cutAt(req *kmsg.OffsetForLeaderEpochRequest, offset int64) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for _, t := range req.Topics {
		topic := kmsg.NewOffsetForLeaderEpochResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			partition := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			partition.Partition, partition.LeaderEpoch, partition.EndOffset = p.Partition, p.LeaderEpoch, offset
			topic.Partitions = append(topic.Partitions, partition)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

// An error that passes is looked into and forgotten: nothing is lost or skipped.
func TestAPassingErrorOfReadingIsRetried(t *testing.T) {
	t.Parallel()
	topic := unique("passing")
	c, b := fake(t, topic, 2)
	b.produce(topic, 0, 0, 10)
	lanes := newRecorder(t)
	lanes.start = from(0)
	run(t, b.config(unique("group"), topic), lanes)
	l := lanes.lane(topic, 0)
	lanes.waitNext(l, 10)
	faults := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Partitions: []int32{0}, Err: kerr.OffsetOutOfRange, Count: 2})
	waitHits(t, faults, 2)
	b.produce(topic, 0, 10, 20)
	lanes.waitNext(l, 20)
	lanes.requireOffsets(l, sequence(0, 20))
	if l.failed != nil {
		t.Errorf("failed with %v", l.failed)
	}
}

// A lane that pauses while an error is looked into stays paused.
func TestAPauseOutlivesARetriedError(t *testing.T) {
	t.Parallel()
	topic := unique("pausederr")
	c, b := fake(t, topic, 2)
	lanes := newRecorder(t)
	lanes.start = from(0)
	run(t, b.config(unique("group"), topic), lanes)
	l, other := lanes.lane(topic, 0), lanes.lane(topic, 1)
	lanes.waitStarted(l)
	lanes.waitStarted(other)
	checks := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: topic, Partitions: []int32{0}, Count: -1, Observe: true})
	faults := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Partitions: []int32{0}, Err: kerr.OffsetOutOfRange, Count: -1})
	waitHits(t, checks, 1)
	l.p.Pause()
	faults.Remove()
	b.produce(topic, 0, 0, 5)
	for i := range 20 {
		b.produce(topic, 1, i, i+1)
		lanes.waitNext(other, int64(i)+1)
	}
	if got := lanes.offsets(l); len(got) != 0 {
		t.Errorf("delivered %v while paused", got)
	}
	l.p.Resume()
	lanes.waitNext(l, 5)
	lanes.requireOffsets(l, sequence(0, 5))
}

func TestMissingRightsOnATopicFailThePartition(t *testing.T) {
	t.Parallel()
	topic := unique("rights")
	c, b := fake(t, topic, 2)
	lanes := newRecorder(t)
	lanes.start = from(0)
	run(t, b.config(unique("group"), topic), lanes)
	l, other := lanes.lane(topic, 0), lanes.lane(topic, 1)
	b.produce(topic, 1, 0, 1)
	lanes.waitNext(other, 1)
	lanes.waitStarted(l)
	faults := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Partitions: []int32{0}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	lanes.wait("the failure", func() bool { return l.failed != nil })
	faults.Remove()
	requireLeftAlone(t, c, b, lanes, l, other, framework.ErrConfig)
	if !strings.Contains(l.failed.Error(), "Read") {
		t.Errorf("%q does not say which right is missing", l.failed)
	}
}

// Bytes that cannot be decoded are fetched again, since the fault may be in
// transit, but not for ever.
func TestAnUnreadableRecordFailsThePartition(t *testing.T) {
	t.Parallel()
	topic := unique("corrupt")
	c, b := fake(t, topic, 1)
	b.produce(topic, 0, 0, 5)
	lanes := newRecorder(t)
	lanes.start = from(0)
	run(t, b.config(unique("group"), topic), lanes)
	l := lanes.lane(topic, 0)
	lanes.waitNext(l, 5)
	var answers atomic.Int32
	c.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		if len(req.Topics) == 0 {
			return nil, nil, false
		}
		answers.Add(1)
		return corrupt(req), nil, true
	})
	lanes.wait("the failure", func() bool { return l.failed != nil })
	if !strings.Contains(l.failed.Error(), "offset 5") {
		t.Errorf("%q does not name the offset", l.failed)
	}
	if n := answers.Load(); n < 2 || n > 20 {
		t.Errorf("fetched %d times before giving up", n)
	}
}

// waitHits waits until a fault was met n times.
func waitHits(t *testing.T, h *kfake.FaultHandle, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := h.Wait(ctx, n); err != nil {
		t.Fatalf("a fault was met %d times, not %d", h.Hits(), n)
	}
}

// corrupt answers a fetch with a batch whose checksum is wrong.
func corrupt(req *kmsg.FetchRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	batch := make([]byte, 80)
	binary.BigEndian.PutUint64(batch, 5)
	binary.BigEndian.PutUint32(batch[8:], uint32(len(batch)-12))
	batch[16] = 2
	for _, t := range req.Topics {
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			partition := kmsg.NewFetchResponseTopicPartition()
			partition.Partition, partition.HighWatermark, partition.LastStableOffset = p.Partition, 6, 6
			partition.RecordBatches = batch
			topic.Partitions = append(topic.Partitions, partition)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

// Backpressure: a lane that pauses after each hand-over gets every record once.
func TestPauseAndResumeLoseNothing(t *testing.T) {
	t.Parallel()
	topic := unique("pressure")
	_, b := fake(t, topic, 2)
	const total = 30000
	b.produce(topic, 0, 0, total)
	b.produce(topic, 1, 0, total)
	lanes := newRecorder(t)
	lanes.start = from(0)
	var wg sync.WaitGroup
	defer wg.Wait()
	lanes.onRecords = func(p framework.Partition, recs []framework.Record) {
		p.Pause()
		wg.Go(func() {
			time.Sleep(time.Duration(len(recs)%3) * time.Millisecond)
			p.Resume()
		})
	}
	cfg := b.config(unique("group"), topic)
	cfg.FetchMaxBytes, cfg.FetchMaxPartitionBytes = 256<<10, 128<<10
	run(t, cfg, lanes)
	for p := range int32(2) {
		l := lanes.lane(topic, p)
		lanes.waitNext(l, total)
		lanes.requireOffsets(l, sequence(0, total))
	}
}

// Of what is read ahead, a paused partition keeps nothing: it is fetched again.
func TestAPausedPartitionIsSilentSoon(t *testing.T) {
	t.Parallel()
	topic := unique("soon")
	_, b := fake(t, topic, 1)
	const total = 20000
	b.produce(topic, 0, 0, total)
	lanes := newRecorder(t)
	lanes.start = from(0)
	var after atomic.Int32
	lanes.onRecords = func(p framework.Partition, _ []framework.Record) {
		after.Add(1)
		p.Pause()
	}
	run(t, b.config(unique("group"), topic), lanes)
	l := lanes.lane(topic, 0)
	lanes.wait("the first records", func() bool { return len(l.records) > 0 })
	b.produce(topic, 0, total, total+1)
	if n := after.Load(); n != 1 {
		t.Errorf("%d hand-overs after the lane had paused within the first", n-1)
	}
	lanes.mu.Lock()
	n := len(l.records)
	lanes.mu.Unlock()
	if n == total {
		t.Fatal("everything came at once; the test shows nothing")
	}
	lanes.onRecords = nil
	l.p.Resume()
	lanes.waitNext(l, total+1)
	lanes.requireOffsets(l, sequence(0, total+1))
}
