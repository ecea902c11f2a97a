//go:build integration

package kafkastore_test

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/integration/servers"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/offsetstore/kafkastore"
)

// realBed is a topic of its own on a real Kafka: three partitions with ten records
// each, a second apart from second 1000 on. Of partition 1 the first three are deleted,
// and partition 2 ends with a record whose transaction was aborted, and its marker.
type realBed struct {
	t       *testing.T
	brokers []string
	topic   string
	group   string
}

func newRealBed(t *testing.T) *realBed {
	t.Helper()
	brokers, err := offsetstore.ParseBrokers(servers.EnvKafka, servers.Kafka(t))
	if err != nil {
		t.Fatal(err)
	}
	name := "kafkastore-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	b := &realBed{t, brokers, name + ".topic", name + ".group"}
	cl := b.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	admin := kadm.NewClient(cl)
	forever := kadm.StringPtr("-1") // the records are older than any other retention allows
	if _, err := admin.CreateTopic(t.Context(), 3, 1, map[string]*string{"retention.ms": forever}, b.topic); err != nil {
		t.Fatal(err)
	}
	var records []*kgo.Record
	for p := range int32(3) {
		for i := range int64(10) {
			records = append(records, b.record(p, 1000+i))
		}
	}
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	var gone kadm.Offsets
	gone.AddOffset(b.topic, 1, 3, -1)
	if _, err := admin.DeleteRecords(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	b.abort()
	return b
}

func (b *realBed) record(partition int32, second int64) *kgo.Record {
	return &kgo.Record{Topic: b.topic, Partition: partition, Timestamp: time.Unix(second, 0), Value: []byte("v")}
}

// abort writes to partition 2 in a transaction, and aborts it.
func (b *realBed) abort() {
	b.t.Helper()
	cl := b.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(b.group))
	if err := cl.BeginTransaction(); err != nil {
		b.t.Fatal(err)
	}
	if err := cl.ProduceSync(b.t.Context(), b.record(2, 1010)).FirstErr(); err != nil {
		b.t.Fatal(err)
	}
	if err := cl.EndTransaction(b.t.Context(), kgo.TryAbort); err != nil {
		b.t.Fatal(err)
	}
}

func (b *realBed) client(opts ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(b.brokers...))...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(cl.Close)
	return cl
}

func (b *realBed) open(rule offsetstore.StartRule) *kafkastore.Store {
	b.t.Helper()
	s, err := kafkastore.New(kafkastore.Config{
		Brokers: b.brokers, Topics: []string{b.topic}, Group: b.group,
		Defaults: offsetstore.StartRules{Default: rule},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(s.Close)
	return s
}

func (b *realBed) done(partition int32, to int64, metadata string) offsetstore.PartitionRange {
	return offsetstore.PartitionRange{
		TopicPartition: offsetstore.TopicPartition{Topic: b.topic, Partition: partition},
		Range:          offsetstore.Range{To: to}, Metadata: metadata,
	}
}

// starts returns where each partition begins.
func (b *realBed) starts(s *kafkastore.Store) map[int32]int64 {
	b.t.Helper()
	starts, err := s.Starts(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	offsets := map[int32]int64{}
	for tp, start := range starts {
		offsets[tp.Partition] = start.Offset
	}
	return offsets
}

// tool runs kafka-consumer-groups, and returns the columns of the table that it prints,
// by name, each by partition.
func (b *realBed) tool(args ...string) map[string]map[int32]int64 {
	b.t.Helper()
	args = append([]string{"--bootstrap-server", strings.Join(b.brokers, ","), "--group", b.group}, args...)
	cmd := servers.KafkaConsumerGroups(b.t, args...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("%q: %v\n%s%s", args, err, out, &said)
	}
	columns := b.parse(string(out))
	if len(columns) == 0 {
		b.t.Fatalf("%q printed no table with the topic:\n%s%s", args, out, &said)
	}
	return columns
}

// parse reads the columns that hold numbers.
func (b *realBed) parse(printed string) map[string]map[int32]int64 {
	b.t.Helper()
	columns := map[string]map[int32]int64{}
	var names []string
	for line := range strings.Lines(printed) {
		fields := strings.Fields(line)
		if len(fields) > 0 && fields[0] == "GROUP" {
			names = fields
			continue
		}
		if len(fields) == 0 || len(fields) != len(names) || fields[1] != b.topic {
			continue
		}
		partition, err := strconv.ParseInt(fields[slices.Index(names, "PARTITION")], 10, 32)
		if err != nil {
			b.t.Fatalf("%v in %q", err, line)
		}
		for i, name := range names {
			if n, err := strconv.ParseInt(fields[i], 10, 64); err == nil {
				if columns[name] == nil {
					columns[name] = map[int32]int64{}
				}
				columns[name][int32(partition)] = n
			}
		}
	}
	return columns
}

func (b *realBed) same(what string, ours, tools map[int32]int64) {
	b.t.Helper()
	if !maps.Equal(ours, tools) {
		b.t.Errorf("%s: the store says %v, Kafka's tool %v", what, ours, tools)
	}
}

// What the store saves is what the tool describes.
func TestKafkasToolDescribesWhatIsSaved(t *testing.T) {
	b := newRealBed(t)
	s := b.open(offsetstore.Earliest())
	if err := s.Save(t.Context(), b.done(0, 4, "first"), b.done(1, 10, ""), b.done(2, 0, "")); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(t.Context(), b.done(0, 5, "second")); err != nil {
		t.Fatal(err)
	}
	described := b.tool("--describe")
	b.same("saved", b.starts(s), described["CURRENT-OFFSET"])
	for column, want := range map[string]map[int32]int64{
		"CURRENT-OFFSET": {0: 5, 1: 10, 2: 0},
		"LOG-END-OFFSET": {0: 10, 1: 10, 2: 12},
		"LAG":            {0: 5, 1: 0, 2: 12},
	} {
		if !maps.Equal(described[column], want) {
			t.Errorf("the tool describes %s %v, want %v", column, described[column], want)
		}
	}
	starts, err := s.Starts(t.Context())
	if got := starts[b.done(0, 0, "").TopicPartition]; err != nil || got.Metadata != "second" || !got.Saved {
		t.Errorf("got %+v, %v; want the metadata that was saved last", got, err)
	}
}

// Where nothing is committed, each rule begins where the tool would put the group.
func TestRulesBeginWhereKafkasToolResetsTo(t *testing.T) {
	b := newRealBed(t)
	at := func(second int64) string { return time.Unix(second, 0).UTC().Format("2006-01-02T15:04:05.000Z") }
	future := time.Now().Add(time.Hour).Unix()
	for _, c := range []struct {
		rule offsetstore.StartRule
		args []string
		want map[int32]int64
	}{
		{offsetstore.Earliest(), []string{"--to-earliest"}, map[int32]int64{0: 0, 1: 3, 2: 0}},
		{offsetstore.Latest(), []string{"--to-latest"}, map[int32]int64{0: 10, 1: 10, 2: 12}},
		{offsetstore.Since(time.Unix(1004, 0)), []string{"--to-datetime", at(1004)}, map[int32]int64{0: 4, 1: 4, 2: 4}},
		{offsetstore.Since(time.Unix(1002, 0)), []string{"--to-datetime", at(1002)}, map[int32]int64{0: 2, 1: 3, 2: 2}},
		{offsetstore.Since(time.Unix(5000, 0)), []string{"--to-datetime", at(5000)}, map[int32]int64{0: 10, 1: 10, 2: 11}}, // the marker has the time of its writing
		{offsetstore.Since(time.Unix(future, 0)), []string{"--to-datetime", at(future)}, map[int32]int64{0: 10, 1: 10, 2: 12}},
		{offsetstore.Exact(6), []string{"--to-offset", "6"}, map[int32]int64{0: 6, 1: 6, 2: 6}},
	} {
		ours := b.starts(b.open(c.rule))
		b.same(c.rule.String(), ours, b.tool(append(c.args, "--reset-offsets", "--topic", b.topic, "--dry-run")...)["NEW-OFFSET"])
		if !maps.Equal(ours, c.want) {
			t.Errorf("%v: got %v, want %v", c.rule, ours, c.want)
		}
	}
}

// What the tool resets is where the store continues, whatever the rule says.
func TestTheStoreContinuesWhereKafkasToolResetsTo(t *testing.T) {
	b := newRealBed(t)
	for _, args := range [][]string{
		{"--to-latest"},
		{"--shift-by", "-2"},
		{"--to-datetime", time.Unix(1004, 0).UTC().Format("2006-01-02T15:04:05.000Z")},
	} {
		tools := b.tool(append(args, "--reset-offsets", "--topic", b.topic, "--execute")...)["NEW-OFFSET"]
		b.same(args[0], b.starts(b.open(offsetstore.Earliest())), tools)
	}
}

func TestARealBrokerRefusesLargeMetadataOfOnePartition(t *testing.T) {
	b := newRealBed(t)
	s := b.open(offsetstore.Earliest())
	const limit = 4096 // Kafka's default of offset.metadata.max.bytes
	err := s.Save(t.Context(), b.done(0, 4, strings.Repeat("x", limit)), b.done(1, 5, strings.Repeat("x", limit+1)), b.done(2, 6, "x"))
	var save *offsetstore.SaveError
	var large *kafkastore.MetadataTooLargeError
	if !errors.As(err, &save) || len(save.Failed) != 1 || !errors.As(err, &large) {
		t.Fatalf("got %v, want one *MetadataTooLargeError", err)
	}
	if large.TopicPartition.Partition != 1 || large.Size != limit+1 || large.Limit != limit {
		t.Errorf("got %+v", large)
	}
	if got := b.tool("--describe")["CURRENT-OFFSET"]; got[0] != 4 || got[2] != 6 {
		t.Errorf("the tool describes %v, want the others stored", got)
	}
}

func TestARealBrokerKnowsNeitherTopicNorPartition(t *testing.T) {
	b := newRealBed(t)
	s := b.open(offsetstore.Earliest())
	err := s.Save(t.Context(), b.done(0, 4, ""), b.done(9, 4, ""))
	var save *offsetstore.SaveError
	if !errors.As(err, &save) || len(save.Failed) != 1 || save.Failed[0].TopicPartition.Partition != 9 || !errors.Is(err, kafkastore.ErrUnknownTopic) {
		t.Errorf("got %v, want %v for partition 9 alone", err, kafkastore.ErrUnknownTopic)
	}
	b.topic += ".not"
	if _, err := b.open(offsetstore.Earliest()).Starts(t.Context()); !errors.Is(err, kafkastore.ErrUnknownTopic) {
		t.Errorf("got %v, want %v", err, kafkastore.ErrUnknownTopic)
	}
}

func TestARealGroupWithMembersRefusesCommits(t *testing.T) {
	b := newRealBed(t)
	member := b.client(kgo.ConsumerGroup(b.group), kgo.ConsumeTopics(b.topic), kgo.DisableAutoCommit())
	member.PollFetches(t.Context())
	if err := b.open(offsetstore.Earliest()).Save(t.Context(), b.done(0, 4, "")); !errors.Is(err, kafkastore.ErrGroupInUse) {
		t.Errorf("got %v, want %v", err, kafkastore.ErrGroupInUse)
	}
}
