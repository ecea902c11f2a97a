package kafka_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

func TestEachPartitionStartsAtItsPosition(t *testing.T) {
	t.Parallel()
	topic := unique("start")
	_, b := fake(t, topic, 3)
	for p := range int32(3) {
		b.produce(topic, p, 0, 100)
	}
	lanes := newRecorder(t)
	lanes.start = func(tp offsetstore.TopicPartition) offsetstore.Position {
		return offsetstore.At(int64(10 * tp.Partition))
	}
	r := run(t, b.config(unique("group"), topic), lanes)
	for p := range int32(3) {
		l := lanes.lane(topic, p)
		lanes.waitNext(l, 100)
		lanes.requireOffsets(l, sequence(int64(10*p), 100))
	}
	r.end()
}

func TestRecordsArriveWhole(t *testing.T) {
	t.Parallel()
	topic := unique("whole")
	_, b := fake(t, topic, 1)
	b.produce(topic, 0, 0, 1)
	b.tombstone(topic, 0, "gone")
	lanes := newRecorder(t)
	lanes.start = from(0)
	run(t, b.config(unique("group"), topic), lanes)
	l := lanes.lane(topic, 0)
	lanes.waitNext(l, 2)

	whole, tombstone := l.records[0], l.records[1]
	if string(whole.Key) != "k0" || string(whole.Value) != "0" || whole.LeaderEpoch != 0 || whole.Timestamp.IsZero() {
		t.Errorf("got %+v", whole)
	}
	if len(whole.Headers) != 1 || whole.Headers[0].Key != "n" || string(whole.Headers[0].Value) != "0" {
		t.Errorf("got headers %+v", whole.Headers)
	}
	if tombstone.Value != nil || string(tombstone.Key) != "gone" || tombstone.Headers != nil {
		t.Errorf("a tombstone has a nil value and keeps its key; got %+v", tombstone)
	}
}

func TestNothingIsFetchedBeforeStart(t *testing.T) {
	t.Parallel()
	topic := unique("silent")
	c, b := fake(t, topic, 2)
	b.produce(topic, 0, 0, 10)
	b.produce(topic, 1, 0, 10)
	fetches := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Partitions: []int32{0}, Count: -1, Observe: true})
	lanes := newRecorder(t)
	run(t, b.config(unique("group"), topic), lanes)
	silent, other := lanes.lane(topic, 0), lanes.lane(topic, 1)

	silent.p.Resume() // without a start it means nothing
	lanes.begin(other, offsetstore.At(0))
	lanes.waitNext(other, 10) // by now an unpaused partition would have been fetched as well
	if n := fetches.Hits(); n != 0 {
		t.Errorf("the partition that was not started was fetched %d times", n)
	}
	if got := lanes.offsets(silent); len(got) != 0 {
		t.Errorf("the partition that was not started delivered %v", got)
	}
	lanes.begin(silent, offsetstore.At(7))
	lanes.waitNext(silent, 10)
	lanes.requireOffsets(silent, sequence(7, 10))
}

func TestStartStaysPausedUntilResume(t *testing.T) {
	t.Parallel()
	topic := unique("paused")
	_, b := fake(t, topic, 2)
	b.produce(topic, 0, 0, 10)
	b.produce(topic, 1, 0, 10)
	lanes := newRecorder(t)
	run(t, b.config(unique("group"), topic), lanes)
	paused, other := lanes.lane(topic, 0), lanes.lane(topic, 1)
	if err := paused.p.Start(t.Context(), offsetstore.At(3)); err != nil {
		t.Fatal(err)
	}
	lanes.begin(other, offsetstore.At(0))
	lanes.waitNext(other, 10)
	if got := lanes.offsets(paused); len(got) != 0 {
		t.Errorf("delivered %v before Resume", got)
	}
	lanes.mu.Lock()
	paused.begun = true
	lanes.mu.Unlock()
	paused.p.Resume()
	lanes.waitNext(paused, 10)
	lanes.requireOffsets(paused, sequence(3, 10))
}

func TestStartRefusesPositionsThatTheLogDoesNotHold(t *testing.T) {
	t.Parallel()
	topic := unique("refused")
	c, b := fake(t, topic, 1, kfake.NumBrokers(2))
	b.produce(topic, 0, 0, 10) // epoch 0
	if err := c.MoveTopicPartition(topic, 0, 1-c.LeaderFor(topic, 0)); err != nil {
		t.Fatal(err)
	}
	b.produce(topic, 0, 10, 20)
	epoch := c.PartitionInfo(topic, 0).Epoch
	if epoch == 0 {
		t.Fatal("the epoch did not change with the leader")
	}
	if err := c.DeleteRecords(topic, 0, 5); err != nil {
		t.Fatal(err)
	}
	id := offsetstore.TopicID(c.TopicInfo(topic).TopicID)
	lanes := newRecorder(t)
	run(t, b.config(unique("group"), topic), lanes)
	p := lanes.lane(topic, 0).p

	for _, test := range []struct {
		name string
		pos  offsetstore.Position
		want error
	}{
		{"below the log's start", offsetstore.At(4), framework.ErrBelowLogStart},
		{"above the log's end", offsetstore.At(21), framework.ErrAboveLogEnd},
		{"of another topic with the same name", offsetstore.Position{Offset: 10, LeaderEpoch: -1, TopicID: offsetstore.TopicID{9}}, framework.ErrTopicRecreated},
		{"beyond the end of its epoch", offsetstore.Position{Offset: 15, LeaderEpoch: 0, TopicID: id}, framework.ErrAboveLogEnd},
		{"of an epoch that the log has not seen", offsetstore.Position{Offset: 15, LeaderEpoch: epoch + 7, TopicID: id}, framework.ErrAboveLogEnd},
		{"at the log's start", offsetstore.At(5), nil},
		{"at the log's end", offsetstore.Position{Offset: 20, LeaderEpoch: epoch, TopicID: id}, nil},
		{"at the end of an old epoch", offsetstore.Position{Offset: 10, LeaderEpoch: 0, TopicID: id}, nil},
	} {
		err := p.Start(t.Context(), test.pos)
		if !errors.Is(err, test.want) {
			t.Errorf("a position %s: got %v, want %v", test.name, err, test.want)
			continue
		}
		if test.want == nil {
			continue
		}
		var position *framework.PositionError
		if !errors.As(err, &position) {
			t.Fatalf("a position %s: %T is not a *PositionError", test.name, err)
		}
		if position.TopicPartition != tp(topic, 0) || position.Position != test.pos || position.TopicID != id {
			t.Errorf("a position %s: the error lacks what is known: %+v", test.name, position)
		}
		if !errors.Is(err, framework.ErrTopicRecreated) && (position.LogStart != 5 || position.LogEnd != 20) {
			t.Errorf("a position %s: log %d..%d, want 5..20", test.name, position.LogStart, position.LogEnd)
		}
	}
}

func TestAStartThatIsRefusedIsReportedWithWhatIsKnown(t *testing.T) {
	t.Parallel()
	topic := unique("report")
	c, b := fake(t, topic, 1)
	b.produce(topic, 0, 0, 10)
	if err := c.DeleteRecords(topic, 0, 5); err != nil {
		t.Fatal(err)
	}
	var log syncBuffer
	cfg := b.config(unique("group"), topic)
	cfg.Logger = log.logger()
	lanes := newRecorder(t)
	run(t, cfg, lanes)
	p := lanes.lane(topic, 0).p
	if err := p.Start(t.Context(), offsetstore.At(2)); !errors.Is(err, framework.ErrBelowLogStart) {
		t.Fatal(err)
	}
	if err := p.Start(t.Context(), offsetstore.At(10)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the report", func() bool { return strings.Contains(log.String(), "starting at") })
	for _, want := range []string{
		"cannot start at the sink's position", "position=2 log_start=5 log_end=10", "below the start of the log",
		"position=10 log_start=5 log_end=10 group_offset=none", `next="waits at the end of the log for new records"`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, log.String())
		}
	}
}

// What is remembered of a topic for a moment must not blur the diagnosis.
func TestATopicMadeAgainAMomentAgoIsNotTakenForATruncatedOne(t *testing.T) {
	t.Parallel()
	topic := unique("moment")
	c, b := fake(t, topic, 1)
	b.produce(topic, 0, 0, 10)
	lanes := newRecorder(t)
	cfg := b.config(unique("group"), topic)
	cfg.MetadataMaxAge = time.Hour
	run(t, cfg, lanes)
	p := lanes.lane(topic, 0).p
	old := offsetstore.Position{Offset: 5, LeaderEpoch: -1, TopicID: offsetstore.TopicID(c.TopicInfo(topic).TopicID)}
	if err := p.Start(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteTopic(topic); err != nil {
		t.Fatal(err)
	}
	if err := c.CreateTopic(topic, 1, nil); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(t.Context(), old); !errors.Is(err, framework.ErrTopicRecreated) {
		t.Errorf("got %v, want %v", err, framework.ErrTopicRecreated)
	}
}

func TestStartRefusesANegativePosition(t *testing.T) {
	t.Parallel()
	topic := unique("negative")
	_, b := fake(t, topic, 1)
	lanes := newRecorder(t)
	run(t, b.config(unique("group"), topic), lanes)
	if err := lanes.lane(topic, 0).p.Start(t.Context(), offsetstore.At(-1)); err == nil {
		t.Error("position -1 was accepted")
	}
}

func TestStartWaitsForServersWithinItsContext(t *testing.T) {
	t.Parallel()
	topic := unique("waits")
	c, b := fake(t, topic, 1)
	lanes := newRecorder(t)
	run(t, b.config(unique("group"), topic), lanes)
	p := lanes.lane(topic, 0).p
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: topic, Err: kerr.OffsetNotAvailable, Count: 3})
	if err := p.Start(t.Context(), offsetstore.At(0)); err != nil {
		t.Errorf("an answer that was not ready: %v", err)
	}
	faults := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: topic, Err: kerr.OffsetNotAvailable, Count: -1})
	defer faults.Remove()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		_ = faults.Wait(ctx, 1)
	}()
	if err := p.Start(ctx, offsetstore.At(0)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v; want %v", err, context.Canceled)
	}
}

func TestAFailedStartLeavesThePartitionSilent(t *testing.T) {
	t.Parallel()
	topic := unique("silent")
	_, b := fake(t, topic, 1)
	b.produce(topic, 0, 0, 10)
	lanes := newRecorder(t)
	lanes.start = from(0)
	run(t, b.config(unique("group"), topic), lanes)
	l := lanes.lane(topic, 0)
	lanes.waitNext(l, 10)
	l.p.Pause()
	if err := l.p.Start(t.Context(), offsetstore.At(99)); !errors.Is(err, framework.ErrAboveLogEnd) {
		t.Fatal(err)
	}
	l.p.Resume()
	b.produce(topic, 0, 10, 20)
	lanes.begin(l, offsetstore.At(15)) // had anything been read meanwhile, it would have come before this
	lanes.waitNext(l, 20)
	lanes.requireOffsets(l, append(sequence(0, 10), sequence(15, 20)...))
}

// A lane whose claim was spent starts again where the sink says. Nothing that
// was read before may come after it.
func TestStartingAgainDeliversNothingStale(t *testing.T) {
	t.Parallel()
	topic := unique("again")
	_, b := fake(t, topic, 2)
	const total = 20000
	b.produce(topic, 0, 0, total)
	b.produce(topic, 1, 0, total)
	lanes := newRecorder(t)
	lanes.start = from(0)
	run(t, b.config(unique("group"), topic), lanes)
	l := lanes.lane(topic, 0)
	for _, at := range []int64{500, 500, 0, 19999, 20000, 3, 3} {
		lanes.wait("records", func() bool { return len(l.records) > 0 })
		l.p.Pause()
		lanes.mu.Lock()
		l.begun = false // what arrives while Start runs is stale
		l.records = nil
		lanes.mu.Unlock()
		// In flight records are accepted until Start has returned.
		if err := startQuietly(lanes, l, at); err != nil {
			t.Fatal(err)
		}
		l.p.Resume()
		if at < total {
			lanes.wait("records after a new start", func() bool { return len(l.records) > 0 })
		} else {
			b.produce(topic, 0, total, total+1)
			lanes.waitNext(l, total+1)
		}
		lanes.mu.Lock()
		if first := l.records[0].Offset; first != at {
			t.Errorf("started at %d, the first record was %d", at, first)
		}
		lanes.mu.Unlock()
	}
	lanes.waitNext(l, total+1)
	lanes.requireOffsets(l, sequence(3, total+1))
}

// startQuietly starts a lane and drops what arrives before Start returns.
func startQuietly(lanes *recorder, l *lane, at int64) error {
	lanes.mu.Lock()
	l.begun = true
	lanes.mu.Unlock()
	err := l.p.Start(context.Background(), offsetstore.At(at))
	lanes.mu.Lock()
	l.records = nil
	lanes.mu.Unlock()
	return err
}

func TestResolveAppliesTheRulesToEveryPartition(t *testing.T) {
	t.Parallel()
	topic := unique("resolve")
	c, b := fake(t, topic, 6)
	for p := range int32(6) {
		b.produceAt(topic, p, 1000, 2000, 3000, 4000)
	}
	if err := c.DeleteRecords(topic, 4, 2); err != nil {
		t.Fatal(err)
	}
	lanes := newRecorder(t)
	run(t, b.config(unique("group"), topic), lanes)
	p := lanes.lane(topic, 0).p
	rules := offsetstore.StartRules{
		Default: offsetstore.Earliest(),
		Partitions: map[offsetstore.TopicPartition]offsetstore.StartRule{
			tp(topic, 1): offsetstore.Latest(),
			tp(topic, 2): offsetstore.Since(millis(2500)),
			tp(topic, 3): offsetstore.Exact(3),
			tp(topic, 5): offsetstore.Since(millis(9999)),
		},
	}
	start, err := p.Resolve(t.Context(), rules)
	if err != nil {
		t.Fatal(err)
	}
	want := map[int32]int64{0: 0, 1: 4, 2: 2, 3: 3, 4: 2, 5: 4}
	for number, offset := range want {
		if start.Starts[number] != offset {
			t.Errorf("partition %d resolved to %d, want %d", number, start.Starts[number], offset)
		}
	}
	if len(start.Starts) != len(want) || start.TopicID != offsetstore.TopicID(c.TopicInfo(topic).TopicID) || start.ClusterID == "" {
		t.Errorf("got %+v", start)
	}

	for offset, want := range map[int64]error{1: framework.ErrBelowLogStart, 5: framework.ErrAboveLogEnd} {
		rules.Partitions[tp(topic, 4)] = offsetstore.Exact(offset)
		var position *framework.PositionError
		if _, err := p.Resolve(t.Context(), rules); !errors.Is(err, want) || !errors.As(err, &position) {
			t.Errorf("exact offset %d outside the log: got %v, want %v", offset, err, want)
		}
	}
	rules.Partitions[tp(topic, 4)] = offsetstore.Exact(-1)
	if _, err := p.Resolve(t.Context(), rules); !errors.Is(err, framework.ErrConfig) {
		t.Errorf("a negative offset: got %v, want %v", err, framework.ErrConfig)
	}
}

func TestGapsInOffsetsAreNoFault(t *testing.T) {
	t.Parallel()
	topic := unique("gaps")
	_, b := fake(t, topic, 1)
	b.transaction(topic, 0, 0, 5, true)    // 0..4, marker 5
	b.transaction(topic, 0, 5, 10, false)  // aborted: 6..10, marker 11
	b.transaction(topic, 0, 10, 15, true)  // 12..16, marker 17
	b.transaction(topic, 0, 15, 20, false) // aborted at the log's end
	lanes := newRecorder(t)
	lanes.start = from(8) // inside the aborted one
	r := run(t, b.config(unique("group"), topic), lanes)
	l := lanes.lane(topic, 0)
	lanes.waitNext(l, 17)
	lanes.requireOffsets(l, sequence(12, 17))
	b.produce(topic, 0, 20, 21)
	lanes.waitNext(l, 25)
	lanes.requireOffsets(l, append(sequence(12, 17), 24))
	l.p.Pause()
	if err := startQuietly(lanes, l, 5); err != nil { // at a marker
		t.Fatal(err)
	}
	l.p.Resume()
	lanes.waitNext(l, 25)
	lanes.requireOffsets(l, append(sequence(12, 17), 24))
	r.end()
}

func TestLatestStandsBeforeAnOpenTransaction(t *testing.T) {
	t.Parallel()
	topic := unique("open")
	_, b := fake(t, topic, 1)
	b.produce(topic, 0, 0, 3)
	commit := b.openTransaction(topic, 0, 3, 6)
	lanes := newRecorder(t)
	run(t, b.config(unique("group"), topic), lanes)
	l := lanes.lane(topic, 0)
	start, err := l.p.Resolve(t.Context(), offsetstore.StartRules{Default: offsetstore.Latest()})
	if err != nil {
		t.Fatal(err)
	}
	if start.Starts[0] != 3 {
		t.Errorf("latest is %d, want 3: the records of the open transaction are still to come", start.Starts[0])
	}
	lanes.begin(l, offsetstore.At(start.Starts[0]))
	commit()
	lanes.waitNext(l, 6)
	lanes.requireOffsets(l, sequence(3, 6))
}

func TestTheGroupsOffsetNeverDecidesTheStart(t *testing.T) {
	t.Parallel()
	topic, group := unique("mirror"), unique("group")
	c, b := fake(t, topic, 1)
	b.produce(topic, 0, 0, 100)
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: topic, Partition: 0, At: 50, LeaderEpoch: 0})
	if err := b.adm.CommitAllOffsets(t.Context(), group, offsets); err != nil {
		t.Fatal(err)
	}
	lookups := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetForLeaderEpoch}, Topic: topic, Count: -1, Observe: true})
	lanes := newRecorder(t)
	lanes.start = from(10)
	cfg := b.config(group, topic)
	var log syncBuffer
	cfg.Logger = log.logger()
	r := run(t, cfg, lanes)
	l := lanes.lane(topic, 0)
	lanes.waitNext(l, 100)
	lanes.requireOffsets(l, sequence(10, 100))
	r.end()
	if n := lookups.Hits(); n != 0 {
		t.Errorf("the client checked the group's offset against the log (%d requests); what it would report is about no position of ours", n)
	}

	lines := slices.DeleteFunc(strings.Split(log.String(), "\n"), func(line string) bool { return !strings.Contains(line, "starting at") })
	if len(lines) != 1 {
		t.Fatalf("want one line, got %q", lines)
	}
	for _, want := range []string{"level=INFO", "position=10", "group_offset=50", "log_start=0", "log_end=100", "topic_id=" + offsetstore.TopicID(c.TopicInfo(topic).TopicID).String(), `next="reads on"`} {
		if !strings.Contains(lines[0], want) {
			t.Errorf("%q does not say %q", lines[0], want)
		}
	}
}
