package positions

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	row  = memory.Row
	part = offsetstore.TopicPartition
)

// The partitions that most tests are about.
var (
	in0 = part{Topic: "in", Partition: 0}
	in1 = part{Topic: "in", Partition: 1}
	in2 = part{Topic: "in", Partition: 2}
)

// metadataAge is how long processes may not notice a change of a topic.
const metadataAge = 5 * time.Second

// bed is one Kafka and one database, on which processes are started, stopped and
// killed, in virtual time.
type bed struct {
	t       *testing.T
	net     kfake.VirtualNetwork
	cluster *kfake.Cluster
	client  *kgo.Client // produces and administers
	admin   *kadm.Client
	store   *memory.Store[row]
	log     map[part][]line // what was produced: the model's input
	running []*process
}

// line is one record of the log.
type line struct {
	offset int64
	text   string
}

// onBed runs a test on a cluster with the topics, given by their number of partitions.
func onBed(t *testing.T, topics map[string]int32, test func(b *bed)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bed{t: t, store: memory.NewStore[row](), log: map[part][]line{}}
		var err error
		b.cluster, err = kfake.NewCluster(
			kfake.NumBrokers(1),
			kfake.Ports(9092), // of the virtual network
			kfake.ListenFn(b.net.Listen),
			kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}),
		)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.cluster.Close)
		for topic, partitions := range topics {
			b.create(topic, partitions, nil)
		}
		b.connect()
		t.Cleanup(func() { b.client.Close() })
		t.Cleanup(b.killAll)
		test(b)
	})
}

func (b *bed) create(topic string, partitions int32, settings map[string]string) {
	b.t.Helper()
	if err := b.cluster.CreateTopic(topic, partitions, settings); err != nil {
		b.t.Fatal(err)
	}
	for p := range partitions {
		b.log[part{Topic: topic, Partition: p}] = nil
	}
}

// connect makes a new client for the test's own use.
func (b *bed) connect() {
	b.t.Helper()
	if b.client != nil {
		b.client.Close()
	}
	b.client = b.newClient()
	b.admin = kadm.NewClient(b.client)
}

func (b *bed) newClient(opts ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(b.cluster.ListenAddrs()...),
		kgo.Dialer(b.net.DialContext),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(10 * time.Millisecond),
		kgo.DisableClientMetrics(),
	}, opts...)...)
	if err != nil {
		b.t.Fatal(err)
	}
	return cl
}

// produce appends records, each keyed by its text, and notes them in the model's log.
func (b *bed) produce(tp part, texts ...string) {
	b.t.Helper()
	for _, text := range texts {
		b.produceKeyed(tp, text, text)
	}
}

func (b *bed) produceKeyed(tp part, key, text string) {
	b.t.Helper()
	r := &kgo.Record{Topic: tp.Topic, Partition: tp.Partition, Key: []byte(key), Value: []byte(text)}
	if err := b.client.ProduceSync(b.t.Context(), r).FirstErr(); err != nil {
		b.t.Fatalf("%s: %v", tp, err)
	}
	b.log[tp] = append(b.log[tp], line{r.Offset, text})
}

// produceMany appends records in one go.
func (b *bed) produceMany(tp part, texts []string) {
	b.t.Helper()
	records := make([]*kgo.Record, len(texts))
	for i, text := range texts {
		records[i] = &kgo.Record{Topic: tp.Topic, Partition: tp.Partition, Value: []byte(text)}
	}
	if err := b.client.ProduceSync(b.t.Context(), records...).FirstErr(); err != nil {
		b.t.Fatalf("%s: %v", tp, err)
	}
	for i, r := range records {
		b.log[tp] = append(b.log[tp], line{r.Offset, texts[i]})
	}
}

// add is the text of a good record: n more for a key.
func add(key string, n int) string { return fmt.Sprintf(`{"k":%q,"n":%d}`, key, n) }

// ones are texts that each add one for a key.
func ones(key string, n int) []string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = add(key, 1)
	}
	return texts
}

// addPartition adds a partition to a topic. Of all processes only the test's own
// client is told.
func (b *bed) addPartition(tp part) {
	b.t.Helper()
	added, err := b.admin.CreatePartitions(b.t.Context(), 1, tp.Topic)
	if err == nil {
		err = added.Error()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.log[tp] = nil
	b.connect() // it would take a while to notice
}

// removeBefore deletes the records below offset, as retention does.
func (b *bed) removeBefore(tp part, offset int64) {
	b.t.Helper()
	if err := b.cluster.DeleteRecords(tp.Topic, tp.Partition, offset); err != nil {
		b.t.Fatal(err)
	}
}

// recreate deletes a topic and makes it again.
func (b *bed) recreate(topic string, partitions int32) {
	b.t.Helper()
	if err := b.cluster.DeleteTopic(topic); err != nil {
		b.t.Fatal(err)
	}
	b.create(topic, partitions, nil)
	b.connect() // it would produce to the former one
}

func (b *bed) topicID(topic string) offsetstore.TopicID {
	return offsetstore.TopicID(b.cluster.TopicInfo(topic).TopicID)
}

// groupOffset is what a group has committed, or -1.
func (b *bed) groupOffset(group string, tp part) int64 {
	info := b.cluster.GroupInfo(group)
	if info == nil {
		return -1
	}
	if commit, ok := info.Commits[tp.Topic][tp.Partition]; ok {
		return commit.Offset
	}
	return -1
}

// setGroupOffset edits what a group without members has committed.
func (b *bed) setGroupOffset(group string, tp part, offset int64) {
	b.t.Helper()
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: tp.Topic, Partition: tp.Partition, At: offset, LeaderEpoch: -1})
	if err := b.admin.CommitAllOffsets(b.t.Context(), group, offsets); err != nil {
		b.t.Fatal(err)
	}
}

// forgetGroupOffset removes it, as the broker does for a group that was idle.
func (b *bed) forgetGroupOffset(group string, tp part) {
	b.t.Helper()
	var offsets kadm.TopicsSet
	offsets.Add(tp.Topic, tp.Partition)
	resp, err := b.admin.DeleteOffsets(b.t.Context(), group, offsets)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// evict removes members from a group, as an operator could; all, if none is named.
func (b *bed) evict(group string, ids ...string) {
	b.t.Helper()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = group
	for _, m := range b.cluster.GroupInfo(group).Members {
		if len(ids) > 0 && !slices.Contains(ids, m.MemberID) {
			continue
		}
		member := kmsg.NewLeaveGroupRequestMember()
		member.MemberID = m.MemberID
		req.Members = append(req.Members, member)
	}
	if len(req.Members) == 0 {
		b.t.Fatalf("group %q has none of these members: %v", group, ids)
	}
	if _, err := req.RequestWith(b.t.Context(), b.client); err != nil {
		b.t.Fatal(err)
	}
}

// awaitNoMembers waits until the group counts nobody any more: a killed member stays
// until its session has timed out.
func (b *bed) awaitNoMembers(group string) {
	b.t.Helper()
	b.await("the group is empty", func() bool {
		info := b.cluster.GroupInfo(group)
		return info != nil && len(info.Members) == 0
	})
}

// await waits for something that comes about in a few minutes at most.
func (b *bed) await(what string, cond func() bool) {
	b.t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for !cond() {
		if time.Now().After(deadline) {
			b.t.Fatalf("not within three minutes: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// awaitSaved waits until the position stands at offset.
func (b *bed) awaitSaved(pipeline string, tp part, offset int64) {
	b.t.Helper()
	b.await(fmt.Sprintf("pipeline %q is at %d in %s", pipeline, offset, tp), func() bool {
		b.requireAlive()
		return b.position(pipeline, tp) == offset
	})
}

// awaitAll waits until everything that was produced to the topics is saved.
func (b *bed) awaitAll(pipeline string, topics ...string) {
	b.t.Helper()
	for tp, lines := range b.log {
		for _, topic := range topics {
			if tp.Topic == topic {
				b.awaitSaved(pipeline, tp, end(lines))
			}
		}
	}
}

// position is the stored one, or -1.
func (b *bed) position(pipeline string, tp part) int64 {
	if p, ok := b.store.Position(pipeline, tp); ok {
		return p.Offset
	}
	return -1
}

// move resets a stored position, as an operator does.
func (b *bed) move(pipeline string, tp part, to offsetstore.Position) {
	b.t.Helper()
	from, _ := b.store.Position(pipeline, tp)
	r := framework.Reset{Pipeline: pipeline, TopicPartition: tp, From: from, To: to}
	if err := b.store.Open(memory.Options[row]{}).Reset(b.t.Context(), r); err != nil {
		b.t.Fatal(err)
	}
}

// logger shows what a process says when the test fails, or runs with -v.
func (b *bed) logger(process int) *slog.Logger {
	return slog.New(slog.NewTextHandler(b.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})).With("process", process)
}
