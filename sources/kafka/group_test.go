package kafka_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	kafkasource "github.com/lockstep-stream/lockstep/sources/kafka"
)

// store plays the sink: it holds the position of each partition and every
// offset that was saved, over all owners.
type store struct {
	mu    sync.Mutex
	next  map[offsetstore.TopicPartition]int64
	saved map[offsetstore.TopicPartition][]int64
}

func newStore() *store {
	return &store{next: make(map[offsetstore.TopicPartition]int64), saved: make(map[offsetstore.TopicPartition][]int64)}
}

func (s *store) position(tp offsetstore.TopicPartition) offsetstore.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return offsetstore.At(s.next[tp])
}

// save is what a sink does with records: those that it has already are ignored.
func (s *store) save(p framework.Partition, recs []framework.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tp := p.TopicPartition()
	for _, r := range recs {
		if r.Offset >= s.next[tp] {
			s.saved[tp] = append(s.saved[tp], r.Offset)
			s.next[tp] = r.Offset + 1
		}
	}
}

func (s *store) through(tp offsetstore.TopicPartition) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next[tp]
}

func (s *store) lanes(t *testing.T) *recorder {
	r := newRecorder(t)
	r.start, r.onRecords = s.position, s.save
	return r
}

func (s *store) requireComplete(t *testing.T, topic string, partitions int32, total int64) {
	t.Helper()
	for p := range partitions {
		got := s.saved[tp(topic, p)]
		if int64(len(got)) != total {
			t.Fatalf("%s/%d: %d records saved, want %d", topic, p, len(got), total)
		}
		for i, o := range got {
			if o != int64(i) {
				t.Fatalf("%s/%d: record %d saved at place %d", topic, p, o, i)
			}
		}
	}
}

// assigned returns how many living assignments a recorder has. It is called
// within wait.
func (r *recorder) assigned() (n int) {
	for _, l := range r.current {
		if !l.dead {
			n++
		}
	}
	return n
}

func TestPartitionsMoveBetweenInstancesWithoutGapOrRepetition(t *testing.T) {
	t.Parallel()
	topic, group := unique("moves"), unique("group")
	const partitions = 4
	_, b := fake(t, topic, partitions)
	produced := 0
	produce := func(n int) {
		for p := range int32(partitions) {
			b.produce(topic, p, produced, produced+n)
		}
		produced += n
	}
	produce(100)
	sink := newStore()
	allSaved := func() bool {
		for p := range int32(partitions) {
			if sink.through(tp(topic, p)) < int64(produced) {
				return false
			}
		}
		return true
	}

	first, second := sink.lanes(t), sink.lanes(t)
	run(t, b.config(group, topic), first)
	first.wait("everything assigned to the first", func() bool { return first.assigned() == partitions })
	eventually(t, "first records", allSaved)

	other := run(t, b.config(group, topic), second) // A → B for half of them
	first.wait("half given up", func() bool { return first.assigned() == partitions/2 })
	second.wait("half taken", func() bool { return second.assigned() == partitions/2 })
	produce(100)
	eventually(t, "records at both", allSaved)

	other.end() // B → A
	first.wait("everything back", func() bool { return first.assigned() == partitions })
	produce(100)
	eventually(t, "records after the return", allSaved)
	sink.requireComplete(t, topic, partitions, int64(produced))

	first.mu.Lock()
	defer first.mu.Unlock()
	if len(first.lanes) != partitions+partitions/2 {
		t.Errorf("%d assignments at the first instance, want %d: a partition that comes back is a fresh one", len(first.lanes), partitions+partitions/2)
	}
}

func TestADeadPartitionDoesNothing(t *testing.T) {
	t.Parallel()
	topic, group := unique("dead"), unique("group")
	_, b := fake(t, topic, 1)
	b.produce(topic, 0, 0, 10)
	first, second := newRecorder(t), newRecorder(t)
	first.start = from(0)
	r := run(t, b.config(group, topic), first)
	dead := first.lane(topic, 0)
	first.waitNext(dead, 10)
	r.end()

	run(t, b.config(group, topic), second)
	alive := second.lane(topic, 0)
	for name, err := range map[string]error{
		"Start":   dead.p.Start(t.Context(), offsetstore.At(0)),
		"Confirm": dead.p.Confirm(t.Context()),
	} {
		if !errors.Is(err, framework.ErrNotOwner) {
			t.Errorf("%s on a dead partition: got %v, want %v", name, err, framework.ErrNotOwner)
		}
	}
	if _, err := dead.p.Resolve(t.Context(), offsetstore.StartRules{}); !errors.Is(err, framework.ErrNotOwner) {
		t.Errorf("Resolve on a dead partition: got %v, want %v", err, framework.ErrNotOwner)
	}
	dead.p.Pause()
	dead.p.Resume()
	dead.p.Mirror(offsetstore.At(3))
	second.begin(alive, offsetstore.At(5))
	second.waitNext(alive, 10)
	b.waitMirror(group, topic, 0, 5) // where the living one was started, not 3
}

// Revoked may block for long. The client's own way of blocking a rebalance
// would stop the records of all other partitions meanwhile.
func TestASlowRevocationDoesNotHoldUpTheOthers(t *testing.T) {
	t.Parallel()
	topic, group := unique("slow"), unique("group")
	_, b := fake(t, topic, 2)
	b.produce(topic, 0, 0, 10)
	b.produce(topic, 1, 0, 10)
	sink := newStore()
	first, second := sink.lanes(t), sink.lanes(t)
	going := make(chan offsetstore.TopicPartition, 2)
	let := make(chan struct{})
	first.onRevoked = func(_ context.Context, ps []framework.Partition) {
		for _, p := range ps {
			going <- p.TopicPartition()
		}
		<-let
	}
	run(t, b.config(group, topic), first)
	first.waitNext(first.lane(topic, 0), 10)
	first.waitNext(first.lane(topic, 1), 10)
	run(t, b.config(group, topic), second)
	gone := <-going
	stays := first.lane(topic, 1-gone.Partition)
	defer close(let)

	b.produce(topic, stays.p.TopicPartition().Partition, 10, 20)
	first.waitNext(stays, 20)
	stays.p.Pause()
	if err := startQuietly(first, stays, 5); err != nil { // needs the polling goroutine
		t.Fatal(err)
	}
	stays.p.Resume()
	first.waitNext(stays, 20)
	if err := first.lane(topic, gone.Partition).p.Confirm(t.Context()); !errors.Is(err, framework.ErrNotOwner) {
		t.Errorf("the group has given the partition away; Confirm says %v", err)
	}
}

func TestRevokedEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	topic := unique("deadline")
	_, b := fake(t, topic, 1)
	lanes := newRecorder(t)
	lanes.start = from(0)
	lanes.onRevoked = func(ctx context.Context, _ []framework.Partition) { <-ctx.Done() }
	cfg := b.config(unique("group"), topic)
	cfg.SessionTimeout, cfg.RebalanceTimeout = time.Second, 2*time.Second
	r := run(t, cfg, lanes)
	lanes.lane(topic, 0)
	r.end()
}

func TestStopEndsABlockedPoll(t *testing.T) {
	t.Parallel()
	topic, group := unique("blocked"), unique("group")
	c, b := fake(t, topic, 1)
	lanes := newRecorder(t)
	lanes.start = from(0)
	cfg := b.config(group, topic)
	cfg.FetchMaxWait = 20 * time.Second
	r := run(t, cfg, lanes)
	l := lanes.lane(topic, 0)
	lanes.waitStarted(l)
	r.end()
	lanes.mu.Lock()
	if !l.dead {
		t.Error("the partition was not revoked before Run returned")
	}
	lanes.mu.Unlock()
	if info := c.GroupInfo(group); info != nil && len(info.Members) != 0 {
		t.Errorf("%d members are left in the group", len(info.Members))
	}
}

// A group waits for a member that has died as long as its session lasts. A stop
// that comes meanwhile must not: there is nothing to give up.
func TestStopDoesNotWaitForARebalance(t *testing.T) {
	t.Parallel()
	topic, group := unique("stuck"), unique("group")
	c, b := fake(t, topic, 1)
	asked, answer := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c.ControlKey(int16(kmsg.JoinGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		once.Do(func() { close(asked) })
		c.SleepControl(func() { <-answer })
		return nil, nil, false
	})
	defer close(answer)
	cfg := b.config(group, topic)
	cfg.SessionTimeout, cfg.RebalanceTimeout = time.Minute, time.Minute
	r := run(t, cfg, newRecorder(t))
	<-asked
	began := time.Now()
	r.end()
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the stop took %s, although no partition was held", took)
	}
}

// die joins the group and is not heard of again: a process that was killed.
func (b *broker) die(group, topic string, session time.Duration) {
	b.t.Helper()
	dead := newBroker(b.t, b.addrs, kgo.ClientID("killed"))
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType = group, "consumer"
	join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = int32(session.Milliseconds()), int32(session.Milliseconds())
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Topics = []string{topic}
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "cooperative-sticky", Metadata: meta.AppendTo(nil)}}
	for range 2 { // the first answer gives the member its ID
		resp, err := join.RequestWith(b.t.Context(), dead.cl)
		if err != nil {
			b.t.Fatal(err)
		}
		join.MemberID = resp.MemberID
		if resp.ErrorCode == 0 {
			return
		}
	}
	b.t.Fatal("could not join")
}

// A restart after a kill seems to hang: the log says why, how long and what helps.
func TestAGroupThatWaitsForADeadMemberIsExplainedOnce(t *testing.T) {
	t.Parallel()
	topic, group := unique("dead"), unique("group")
	_, b := fake(t, topic, 1)
	b.die(group, topic, 3*time.Second)
	var log syncBuffer
	cfg := b.config(group, topic)
	cfg.Logger, cfg.SessionTimeout, cfg.RebalanceTimeout = log.logger(), time.Second, 3*time.Second
	lanes := newRecorder(t)
	lanes.start = from(0)
	r := run(t, cfg, lanes)
	lanes.waitStarted(lanes.lane(topic, 0))
	r.end()
	if n := strings.Count(log.String(), "no partitions yet"); n != 1 {
		t.Errorf("the wait was explained %d times, want once:\n%s", n, log.String())
	}
	for _, want := range []string{"waits_for=\"[killed (", "at_most=3s", "kafka.Config.InstanceID", "kafka.Config.SessionTimeout"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, log.String())
		}
	}
}

func TestALostSessionLosesThePartitionsAndJoinsAgain(t *testing.T) {
	t.Parallel()
	topic, group := unique("lost"), unique("group")
	c, b := fake(t, topic, 2)
	b.produce(topic, 0, 0, 10)
	b.produce(topic, 1, 0, 10)
	sink := newStore()
	lanes := sink.lanes(t)
	cfg := b.config(group, topic)
	cfg.SessionTimeout = time.Second // a heartbeat each 200 ms
	run(t, cfg, lanes)
	old := lanes.lane(topic, 0)
	lanes.waitNext(old, 10)
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Group: group, Err: kerr.UnknownMemberID})
	lanes.wait("both lost", func() bool {
		return lanes.count(func(e string) bool { return strings.HasPrefix(e, "lost ") }) == 2
	})
	if err := old.p.Start(t.Context(), offsetstore.At(0)); !errors.Is(err, framework.ErrNotOwner) {
		t.Errorf("Start on a lost partition: %v", err)
	}
	b.produce(topic, 0, 10, 20)
	b.produce(topic, 1, 10, 20)
	eventually(t, "reading on", func() bool { return sink.through(tp(topic, 0)) == 20 && sink.through(tp(topic, 1)) == 20 })
	sink.requireComplete(t, topic, 2, 20)
}

func TestAddedPartitionsArePickedUp(t *testing.T) {
	t.Parallel()
	topic := unique("grows")
	_, b := fake(t, topic, 1)
	lanes := newRecorder(t)
	lanes.start = from(0)
	run(t, b.config(unique("group"), topic), lanes)
	lanes.lane(topic, 0)
	if _, err := b.adm.CreatePartitions(t.Context(), 2, topic); err != nil {
		t.Fatal(err)
	}
	added := lanes.lane(topic, 2)
	b.cl.ForceMetadataRefresh()
	b.produce(topic, 2, 0, 5)
	lanes.waitNext(added, 5)
	lanes.requireOffsets(added, sequence(0, 5))
}

// A member whose view of the topic is old can be assigned a partition it does
// not know. Its client would look up the position and bend it into the log.
func TestAPartitionTheClientDoesNotKnowYetStartsWhereItShould(t *testing.T) {
	t.Parallel()
	topic, group := unique("unknown"), unique("group")
	_, b := fake(t, topic, 2)
	sink := newStore()
	leader, stale := sink.lanes(t), sink.lanes(t)
	run(t, b.config(group, topic), leader)
	leader.wait("both", func() bool { return leader.assigned() == 2 })
	cfg := b.config(group, topic)
	cfg.MetadataMaxAge = time.Hour
	run(t, cfg, stale)
	stale.wait("one", func() bool { return stale.assigned() == 1 })
	if _, err := b.adm.CreatePartitions(t.Context(), 4, topic); err != nil {
		t.Fatal(err)
	}
	b.cl.ForceMetadataRefresh()
	for p := range int32(6) {
		b.produce(topic, p, 0, 10)
	}
	stale.wait("its share of the new ones", func() bool { return stale.assigned() == 3 })
	eventually(t, "everything read", func() bool {
		for p := range int32(6) {
			if sink.through(tp(topic, p)) != 10 {
				return false
			}
		}
		return true
	})
	sink.requireComplete(t, topic, 6, 10)
}

// Lag tools see where a partition was started before anything of it is saved.
func TestAStartIsMirroredIfTheGroupHoldsSomethingElse(t *testing.T) {
	t.Parallel()
	topic, group := unique("begin"), unique("group")
	c, b := fake(t, topic, 2)
	b.produce(topic, 0, 0, 10)
	b.produce(topic, 1, 0, 10)
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: topic, Partition: 0, At: 3, LeaderEpoch: 0})
	offsets.Add(kadm.Offset{Topic: topic, Partition: 1, At: 10, LeaderEpoch: 0})
	if err := b.adm.CommitAllOffsets(t.Context(), group, offsets); err != nil {
		t.Fatal(err)
	}
	right := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Topic: topic, Partitions: []int32{1}, Count: -1, Observe: true})
	lanes := newRecorder(t)
	lanes.start = from(10)
	r := run(t, b.config(group, topic), lanes)
	lanes.waitStarted(lanes.lane(topic, 1))
	b.waitMirror(group, topic, 0, 10)
	r.end()
	if n := right.Hits(); n != 0 {
		t.Errorf("%d commits of what the group held already", n)
	}
}

func TestMirrorIsVisibleToLagTools(t *testing.T) {
	t.Parallel()
	topic, group := unique("mirror"), unique("group")
	c, b := fake(t, topic, 2)
	b.produce(topic, 0, 0, 100)
	commits := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Topic: topic, Partitions: []int32{0}, Count: -1, Observe: true})
	lanes := newRecorder(t)
	lanes.start = from(0)
	cfg := b.config(group, topic)
	r := run(t, cfg, lanes)
	l := lanes.lane(topic, 0)
	lanes.waitNext(l, 100)
	for i := range int64(100) {
		l.p.Mirror(offsetstore.Position{Offset: i + 1, LeaderEpoch: 0})
	}
	b.waitMirror(group, topic, 0, 100)
	if n := commits.Hits(); n > 50 {
		t.Errorf("100 positions took %d commits; they should be gathered", n)
	}
	offsets, err := b.adm.FetchOffsets(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	if o, _ := offsets.Lookup(topic, 0); o.LeaderEpoch != 0 {
		t.Errorf("leader epoch %d was committed, want 0", o.LeaderEpoch)
	}
	r.end()
}

func TestTheLastMirroredPositionIsCommittedBeforeLeaving(t *testing.T) {
	t.Parallel()
	topic, group := unique("flush"), unique("group")
	_, b := fake(t, topic, 1)
	b.produce(topic, 0, 0, 10)
	lanes := newRecorder(t)
	lanes.start = from(0)
	lanes.onRevoked = func(_ context.Context, ps []framework.Partition) {
		ps[0].Mirror(offsetstore.At(7)) // what was in flight has been saved
	}
	cfg := b.config(group, topic)
	cfg.MirrorInterval = time.Hour
	r := run(t, cfg, lanes)
	l := lanes.lane(topic, 0)
	lanes.waitNext(l, 10)
	b.waitMirror(group, topic, 0, 0) // where it was started; the next commit is an hour away
	l.p.Mirror(offsetstore.At(5))
	r.end()
	if at, _ := b.groupOffset(group, topic, 0); at != 7 {
		t.Errorf("the group is at %d, want 7", at)
	}
}

func TestARefusedMirrorIsSentAgain(t *testing.T) {
	t.Parallel()
	topic, group := unique("again"), unique("group")
	c, b := fake(t, topic, 1)
	b.produce(topic, 0, 0, 10)
	lanes := newRecorder(t)
	lanes.start = from(0)
	run(t, b.config(group, topic), lanes)
	l := lanes.lane(topic, 0)
	lanes.waitNext(l, 10)
	b.waitMirror(group, topic, 0, 0)
	refusals := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: group, Err: kerr.OffsetMetadataTooLarge, Count: 2})
	l.p.Mirror(offsetstore.At(4))
	b.waitMirror(group, topic, 0, 4)
	if n := refusals.Hits(); n != 2 {
		t.Errorf("%d commits were refused, want 2", n)
	}
}

func TestConfirmAsksTheGroup(t *testing.T) {
	t.Parallel()
	topic, group := unique("confirm"), unique("group")
	c, b := fake(t, topic, 1)
	b.produce(topic, 0, 0, 10)
	lanes := newRecorder(t)
	run(t, b.config(group, topic), lanes)
	l := lanes.lane(topic, 0)
	if err := l.p.Confirm(t.Context()); err != nil {
		t.Errorf("before the start: %v", err)
	}
	lanes.begin(l, offsetstore.At(2))
	b.waitMirror(group, topic, 0, 2)
	proofs := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: group, Count: -1, Observe: true})
	if err := l.p.Confirm(t.Context()); err != nil {
		t.Errorf("after the start: %v", err)
	}
	if at, _ := b.groupOffset(group, topic, 0); at != 2 || proofs.Hits() != 1 {
		t.Errorf("%d proofs committed %d, want one of the position of the start, 2", proofs.Hits(), at)
	}
	for _, code := range []*kerr.Error{kerr.RebalanceInProgress, kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.FencedInstanceID} {
		c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: group, Err: code, Count: 2})
		if err := l.p.Confirm(t.Context()); err != nil {
			t.Errorf("%s: what follows is to be waited for; got %v", code.Message, err)
		}
	}
}

// A member that the group has dropped while it was joining joins again as a new
// one, keeps its partitions, and nobody is told. Whoever asks then must not be
// told that they are gone: they would be left to nobody.
func TestAMemberThatIsDroppedWhileItJoinsKeepsWhatItHas(t *testing.T) {
	t.Parallel()
	topic, group := unique("rejoin"), unique("group")
	c, b := fake(t, topic, 1)
	lanes := newRecorder(t)
	lanes.start = from(0)
	cfg := b.config(group, topic)
	cfg.SessionTimeout = 5 * time.Second // a heartbeat each second
	run(t, cfg, lanes)
	l := lanes.lane(topic, 0)
	lanes.waitStarted(l)

	joining := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Group: group, Err: kerr.UnknownMemberID})
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: group, Err: kerr.UnknownMemberID, Count: -1,
		When: func(kmsg.Request) bool { return joining.Hits() == 0 }})
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Group: group, Err: kerr.RebalanceInProgress})
	if err := l.p.Confirm(t.Context()); err != nil {
		t.Fatalf("got %v; the group counts the process as the owner again", err)
	}
	if joining.Hits() == 0 || l.dead {
		t.Fatalf("joined again %d times, lost: %v; want the partition kept over a join", joining.Hits(), l.dead)
	}
	b.produce(topic, 0, 0, 5)
	lanes.waitNext(l, 5)
}

func TestConfirmOfAMemberThatWasRemoved(t *testing.T) {
	t.Parallel()
	topic, group := unique("stale"), unique("group")
	_, b := fake(t, topic, 1)
	lanes := newRecorder(t)
	lanes.start = from(0)
	cfg := b.config(group, topic)
	cfg.SessionTimeout = time.Second // a heartbeat each 200 ms
	run(t, cfg, lanes)
	l := lanes.lane(topic, 0)
	lanes.waitStarted(l)
	b.removeMembers(group)
	err := l.p.Confirm(t.Context())
	if !errors.Is(err, framework.ErrNotOwner) {
		t.Errorf("got %v, want %v", err, framework.ErrNotOwner)
	}
	lanes.wait("the loss", func() bool { return l.dead })
	fresh := lanes.lane(topic, 0)
	lanes.waitStarted(fresh)
	if err := fresh.p.Confirm(t.Context()); err != nil {
		t.Errorf("the new assignment: %v", err)
	}
}

func TestConfirmThatCannotAskSaysSo(t *testing.T) {
	t.Parallel()
	topic, group := unique("unasked"), unique("group")
	c, b := fake(t, topic, 1)
	lanes := newRecorder(t)
	lanes.start = from(0)
	run(t, b.config(group, topic), lanes)
	l := lanes.lane(topic, 0)
	b.waitMirror(group, topic, 0, 0) // else it would meet the fault
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: group, Err: kerr.OffsetMetadataTooLarge})
	if err := l.p.Confirm(t.Context()); err == nil || errors.Is(err, framework.ErrNotOwner) {
		t.Errorf("got %v; it is neither confirmed nor refuted", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.p.Confirm(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, framework.ErrNotOwner) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func TestAStaticMemberKeepsItsPartitionsOverARestart(t *testing.T) {
	t.Parallel()
	topic, group := unique("static"), unique("group")
	c, b := fake(t, topic, 2)
	cfg := b.config(group, topic)
	cfg.InstanceID = "one"
	leaves := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.LeaveGroup}, Group: group, Count: -1, Observe: true})
	lanes := newRecorder(t)
	lanes.start = from(0)
	r := run(t, cfg, lanes)
	lanes.wait("both", func() bool { return lanes.assigned() == 2 })
	before := c.GroupInfo(group)
	r.end()
	if n := leaves.Hits(); n != 0 {
		t.Errorf("a static member left the group (%d requests)", n)
	}
	again := newRecorder(t)
	again.start = from(0)
	run(t, cfg, again)
	again.wait("both", func() bool { return again.assigned() == 2 })
	if after := c.GroupInfo(group); after.Epoch != before.Epoch {
		t.Errorf("the restart rebalanced the group: generation %d, before %d", after.Epoch, before.Epoch)
	}
}

func TestTwoProcessesWithOneInstanceID(t *testing.T) {
	t.Parallel()
	topic, group := unique("twice"), unique("group")
	_, b := fake(t, topic, 1)
	cfg := b.config(group, topic)
	cfg.InstanceID = "one"
	cfg.SessionTimeout = time.Second
	lanes, other := newRecorder(t), newRecorder(t)
	lanes.start = from(0)
	r := run(t, cfg, lanes)
	l := lanes.lane(topic, 0)
	run(t, cfg, other)
	r.wait()
	if !errors.Is(r.err, framework.ErrConfig) || !strings.Contains(r.err.Error(), "InstanceID") {
		t.Errorf("got %v, want %v about InstanceID", r.err, framework.ErrConfig)
	}
	lanes.wait("the loss", func() bool { return l.dead })
}

func TestAGroupOfAnotherKindIsRefused(t *testing.T) {
	t.Parallel()
	topic, group := unique("kinds"), unique("group")
	c, b := fake(t, topic, 1)
	newBroker(t, b.addrs, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.Balancers(kgo.RangeBalancer()))
	if _, err := c.WaitGroupStable(t.Context(), group, 1); err != nil {
		t.Fatal(err)
	}
	r := run(t, b.config(group, topic), newRecorder(t))
	r.wait()
	if !errors.Is(r.err, framework.ErrConfig) || !strings.Contains(r.err.Error(), "group of its own") {
		t.Errorf("got %v, want %v that says what to do", r.err, framework.ErrConfig)
	}
}

func TestMissingRightsOnTheGroupEndTheRun(t *testing.T) {
	t.Parallel()
	topic, group := unique("rights"), unique("group")
	c, b := fake(t, topic, 1)
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Group: group, Err: kerr.GroupAuthorizationFailed, TopLevel: true, Count: -1})
	r := run(t, b.config(group, topic), newRecorder(t))
	r.wait()
	if !errors.Is(r.err, framework.ErrConfig) || !strings.Contains(r.err.Error(), "Read on the group") {
		t.Errorf("got %v, want %v that says which right is missing", r.err, framework.ErrConfig)
	}
}

func TestMissingRightsOnTheGroupsOffsetsEndTheRun(t *testing.T) {
	t.Parallel()
	topic, group := unique("rights"), unique("group")
	c, b := fake(t, topic, 1)
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: -1})
	r := run(t, b.config(group, topic), newRecorder(t))
	r.wait() // the client alone would never read the partition, and not say so
	if !errors.Is(r.err, framework.ErrConfig) {
		t.Errorf("got %v, want %v", r.err, framework.ErrConfig)
	}
}

func TestReadingGoesOnAfterTheBrokerWasRestarted(t *testing.T) {
	topic, dir, port := unique("restart"), t.TempDir(), freePort(t)
	c, b := fake(t, topic, 1, kfake.DataDir(dir), kfake.Ports(port))
	b.produce(topic, 0, 0, 10)
	sink := newStore()
	lanes := sink.lanes(t)
	run(t, b.config(unique("group"), topic), lanes)
	eventually(t, "the first records", func() bool { return sink.through(tp(topic, 0)) == 10 })
	c.Close()
	_, b = fake(t, topic, 1, kfake.DataDir(dir), kfake.Ports(port))
	b.produce(topic, 0, 10, 20)
	eventually(t, "the others", func() bool { return sink.through(tp(topic, 0)) == 20 })
	sink.requireComplete(t, topic, 1, 20)
}

func TestHundredsOfPartitionsStart(t *testing.T) {
	t.Parallel()
	topic := unique("many")
	const partitions = 300
	_, b := fake(t, topic, partitions)
	for p := range int32(partitions) {
		b.produce(topic, p, 0, 3)
	}
	sink := newStore()
	run(t, b.config(unique("group"), topic), sink.lanes(t))
	eventually(t, "everything read", func() bool {
		for p := range int32(partitions) {
			if sink.through(tp(topic, p)) != 3 {
				return false
			}
		}
		return true
	})
	sink.requireComplete(t, topic, partitions, 3)
}

func TestASourceRunsOnce(t *testing.T) {
	t.Parallel()
	topic := unique("once")
	_, b := fake(t, topic, 1)
	src, err := kafkasource.New(b.config(unique("group"), topic))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := src.Run(ctx, newRecorder(t)); err != nil {
		t.Errorf("Run after a cancel: %v", err)
	}
	if err := src.Run(ctx, newRecorder(t)); !errors.Is(err, framework.ErrClosed) {
		t.Errorf("the second Run: got %v, want %v", err, framework.ErrClosed)
	}
}

// removeMembers takes every member out of a group, as an operator could.
func (b *broker) removeMembers(group string) {
	b.t.Helper()
	groups, err := b.adm.DescribeGroups(b.t.Context(), group)
	if err != nil {
		b.t.Fatal(err)
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = group
	for _, m := range groups[group].Members {
		member := kmsg.NewLeaveGroupRequestMember()
		member.MemberID = m.MemberID
		req.Members = append(req.Members, member)
	}
	if len(req.Members) == 0 {
		b.t.Fatal("the group has no members")
	}
	if resp, err := req.RequestWith(b.t.Context(), b.cl); err != nil || resp.ErrorCode != 0 {
		b.t.Fatal(err, kerr.ErrorForCode(resp.ErrorCode))
	}
}
