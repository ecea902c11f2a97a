package kafkastore_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/offsetstore/kafkastore"
)

func TestPartitionsAndTheirLeaders(t *testing.T) {
	b := newBed(t)
	s := b.open(func(c *kafkastore.Config) { c.Topics = []string{"other", "in"} })
	partitions, err := s.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(partitions) != 6 || partitions[0].String() != "other/0" || partitions[5].TopicPartition != in(2) {
		t.Errorf("got %v, want three partitions of each topic in order", partitions)
	}
	for _, p := range partitions {
		if want := b.cluster.LeaderFor(p.Topic, p.Partition); p.Leader != want || p.TopicID.IsZero() {
			t.Errorf("%s: leader %d, want %d, with the topic's ID", p.TopicPartition, p.Leader, want)
		}
	}
}

func TestWhatIsSavedIsWhereItContinues(t *testing.T) {
	b := newBed(t)
	if err := b.open(nil).Save(t.Context(), done(0, 0, 4, "first"), done(2, 3, 10, "")); err != nil {
		t.Fatal(err)
	}
	s := b.open(nil)
	if got := offsets(t, s); !slices.Equal(got, []string{"4 (saved)", "0 (earliest)", "10 (saved)"}) {
		t.Errorf("got %q", got)
	}
	starts, _ := s.Starts(t.Context())
	if got := starts[in(0)]; got.Metadata != "first" || !got.Saved {
		t.Errorf("got %+v, want the metadata", got)
	}
	if err := s.Save(t.Context(), done(0, 4, 4, "")); err != nil { // an empty range
		t.Error(err)
	}
}

// Offset 0 is a place like any other: it is not "nothing committed".
func TestSavedZeroIsNotNone(t *testing.T) {
	b := newBed(t)
	s := b.open(func(c *kafkastore.Config) { c.Defaults.Default = offsetstore.Latest() })
	if err := s.Save(t.Context(), done(1, 0, 0, "")); err != nil {
		t.Fatal(err)
	}
	if got := offsets(t, s); !slices.Equal(got, []string{"10 (latest)", "0 (saved)", "10 (latest)"}) {
		t.Errorf("got %q", got)
	}
}

func TestRulesOfPartitionOverTopicOverAll(t *testing.T) {
	b := newBed(t)
	rules, err := offsetstore.ParseStartRules("-start", "earliest, in=latest, in/1=1003000, in/2=offset:7")
	if err != nil {
		t.Fatal(err)
	}
	s := b.open(func(c *kafkastore.Config) { c.Defaults, c.Topics = rules, []string{"in", "other"} })
	starts, err := s.Starts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for tp, want := range map[offsetstore.TopicPartition]int64{
		in(0): 10, in(1): 3, in(2): 7, {Topic: "other", Partition: 0}: 0,
	} {
		if got := starts[tp]; got.Offset != want || got.Saved || got.PastEnd || got.Rule != rules.For(tp) {
			t.Errorf("%s: %+v, want %d by %v", tp, got, want, rules.For(tp))
		}
	}
}

func TestATimeThatNoRecordHasReachedIsTheEndAndSaysSo(t *testing.T) {
	b := newBed(t)
	s := b.open(func(c *kafkastore.Config) { c.Defaults.Default = offsetstore.Since(time.Unix(5000, 0).UTC()) })
	for p, got := range offsets(t, s) {
		if want := "10 (since 1970-01-01T01:23:20Z, which is past the last record: the log's end)"; got != want {
			t.Errorf("in/%d: %s, want %s", p, got, want)
		}
	}
}

// A record that arrives while the rule is applied is read, if it is young enough.
func TestARecordThatArrivesWhileATimeIsResolvedIsNotLost(t *testing.T) {
	for _, before := range []int{1, 2} { // the request before which it arrives
		b := newBed(t)
		s := b.open(func(c *kafkastore.Config) { c.Defaults.Default = offsetstore.Since(time.Unix(5000, 0)) })
		if err := s.Save(t.Context(), done(1, 0, 1, ""), done(2, 0, 1, "")); err != nil { // one partition, so one request each
			t.Fatal(err)
		}
		n := 0
		b.watch(kmsg.ListOffsets, func(kmsg.Request) {
			if n++; n == before {
				b.cluster.SleepControl(func() { b.produce(at(0, 6000)) })
			}
		})
		starts, err := s.Starts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := starts[in(0)].Offset; got != 10 {
			t.Errorf("it begins at %d, behind the record at 10 that came before request %d", got, before)
		}
	}
}

// pending begins a transaction that commits an offset, and returns what commits it.
func (b *bed) pending(group string, tp offsetstore.TopicPartition, offset int64) (commit func()) {
	b.t.Helper()
	cl := b.client(kgo.TransactionalID("txn"))
	b.t.Cleanup(cl.Close)
	id, epoch, err := cl.ProducerID(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.Group, add.ProducerID, add.ProducerEpoch = "txn", group, id, epoch
	if resp, err := add.RequestWith(b.t.Context(), cl); err != nil || resp.ErrorCode != 0 {
		b.t.Fatal(err, resp)
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = "txn", group, id, epoch
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic, topic.TopicID = tp.Topic, b.cluster.TopicInfo(tp.Topic).TopicID
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = tp.Partition, offset
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	if resp, err := req.RequestWith(b.t.Context(), cl); err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		b.t.Fatal(err, resp)
	}
	return func() {
		end := kmsg.NewPtrEndTxnRequest()
		end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = "txn", id, epoch, true
		if resp, err := end.RequestWith(b.t.Context(), cl); err != nil || resp.ErrorCode != 0 {
			b.t.Fatal(err, resp)
		}
	}
}

// What a transaction is about to commit is neither "nothing" nor what it was before.
func TestAPendingCommitIsWaitedFor(t *testing.T) {
	b := newBed(t)
	s := b.open(nil)
	if err := s.Save(t.Context(), done(0, 0, 3, "")); err != nil {
		t.Fatal(err)
	}
	commit := b.pending("nightly", in(0), 7)
	if starts, err := s.Starts(t.Context()); !errors.Is(err, kerr.UnstableOffsetCommit) {
		t.Errorf("got %v, %v; want %v", starts, err, kerr.UnstableOffsetCommit)
	}
	commit()
	if got := offsets(t, s)[0]; got != "7 (saved)" {
		t.Errorf("got %s", got)
	}
}

func TestAnExactStartOutsideTheLogIsRefused(t *testing.T) {
	s := newBed(t).open(func(c *kafkastore.Config) { c.Defaults.Default = offsetstore.Exact(11) })
	_, err := s.Starts(t.Context())
	if !errors.Is(err, kafkastore.ErrConfig) || !strings.Contains(err.Error(), "0..10") {
		t.Errorf("got %v, want ErrConfig and what the log holds", err)
	}
}

func TestUnknownTopics(t *testing.T) {
	b := newBed(t)
	s := b.open(func(c *kafkastore.Config) { c.Topics = []string{"in", "nowhere"} })
	if _, err := s.Starts(t.Context()); !errors.Is(err, kafkastore.ErrUnknownTopic) || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("got %v, want %v naming the topic", err, kafkastore.ErrUnknownTopic)
	}
	// A save names what is not there and stores the rest.
	err := s.Save(t.Context(), done(0, 0, 3, ""), done(9, 0, 3, ""))
	var save *offsetstore.SaveError
	if !errors.As(err, &save) || len(save.Failed) != 1 || save.Failed[0].TopicPartition != in(9) || !errors.Is(err, kafkastore.ErrUnknownTopic) {
		t.Errorf("got %v, want only in/9, unknown", err)
	}
	if got := offsets(t, b.open(nil))[0]; got != "3 (saved)" {
		t.Errorf("in/0 is at %s, want what was saved with it", got)
	}
}

func TestMetadataTooLarge(t *testing.T) {
	b := newBed(t)
	s := b.open(nil)
	b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Topic: "in", Partitions: []int32{1}, Err: kerr.OffsetMetadataTooLarge})
	commits := 0
	b.watch(kmsg.OffsetCommit, func(kmsg.Request) { commits++ })
	err := s.Save(t.Context(), done(0, 0, 1, ""), done(1, 0, 2, strings.Repeat("x", 5000)), done(2, 0, 3, ""))
	var large *kafkastore.MetadataTooLargeError
	if !errors.As(err, &large) || large.TopicPartition != in(1) || large.Size != 5000 {
		t.Fatalf("got %v, want a *MetadataTooLargeError for in/1 with 5000 bytes", err)
	}
	if commits != 1 {
		t.Errorf("%d requests; it cannot help to try again", commits)
	}
	if got := offsets(t, s); !slices.Equal(got, []string{"1 (saved)", "0 (earliest)", "3 (saved)"}) {
		t.Errorf("got %q, want the other partitions stored", got)
	}
}

// The brokers' limit is asked for once, however many partitions are over it.
func TestManyMetadataTooLarge(t *testing.T) {
	b := newBed(t)
	b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Topic: "in", Err: kerr.OffsetMetadataTooLarge})
	asked := 0
	b.watch(kmsg.DescribeConfigs, func(kmsg.Request) { asked++ })
	err := b.open(nil).Save(t.Context(), done(0, 0, 1, "a"), done(1, 0, 1, "b"), done(2, 0, 1, "c"))
	var save *offsetstore.SaveError
	if !errors.As(err, &save) || len(save.Failed) != 3 || asked != 1 {
		t.Errorf("got %v after asking %d times, want three partitions after asking once", err, asked)
	}
}

func TestAuthorization(t *testing.T) {
	b := newBed(t)
	for key, want := range map[kmsg.Key]struct {
		code      *kerr.Error
		partition bool // it is a partition's error
	}{
		kmsg.Metadata:        {kerr.TopicAuthorizationFailed, false}, // the topic's
		kmsg.FindCoordinator: {kerr.GroupAuthorizationFailed, false},
		kmsg.OffsetFetch:     {kerr.GroupAuthorizationFailed, false},
		kmsg.ListOffsets:     {kerr.TopicAuthorizationFailed, true},
	} {
		f := b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: want.code, Count: -1})
		starts, err := b.open(nil).Starts(t.Context())
		if starts != nil || !errors.Is(err, kafkastore.ErrNotAuthorized) || !errors.Is(err, want.code) {
			t.Errorf("%v: got %v, %v; want %v", key.Name(), starts, err, kafkastore.ErrNotAuthorized)
		}
		var one *offsetstore.PartitionError
		if errors.As(err, &one) != want.partition {
			t.Errorf("%v: %v; blames a partition: %v, want %v", key.Name(), err, !want.partition, want.partition)
		}
		f.Remove()
	}
	b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.GroupAuthorizationFailed})
	if err := b.open(nil).Save(t.Context(), done(0, 0, 1, "")); !errors.Is(err, kafkastore.ErrNotAuthorized) {
		t.Errorf("saving: got %v, want %v", err, kafkastore.ErrNotAuthorized)
	}
}

func TestARefusedLogin(t *testing.T) {
	b := &bed{t: t, options: []kgo.Opt{kgo.SASL(plain.Auth{User: "admin", Pass: "right"}.AsMechanism())}}
	b.start(kfake.EnableSASL(), kfake.Superuser("PLAIN", "admin", "right"))
	if err := b.open(nil).Save(t.Context(), done(0, 0, 1, "")); err != nil {
		t.Fatal(err)
	}
	// The in-process Kafka would only hang up.
	f := b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.SASLAuthenticate}, Err: kerr.SaslAuthenticationFailed, TopLevel: true, Count: -1})
	if _, err := b.open(nil).Starts(t.Context()); !errors.Is(err, kafkastore.ErrNotAuthorized) || f.Hits() != 1 {
		t.Errorf("got %v after %d logins, want %v after one", err, f.Hits(), kafkastore.ErrNotAuthorized)
	}
}

func TestNoLeader(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.LeaderNotAvailable, kerr.ListenerNotFound} {
		b := newBed(t)
		s := b.open(nil)
		f := b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "in", Partitions: []int32{2}, Err: code, Count: -1})
		_, err := s.Partitions(t.Context())
		var one *offsetstore.PartitionError
		if !errors.Is(err, kafkastore.ErrNoLeader) || !errors.As(err, &one) || one.TopicPartition != in(2) || f.Hits() != 3 {
			t.Errorf("got %v after %d requests, want %v for in/2 after three", err, f.Hits(), kafkastore.ErrNoLeader)
		}
	}
}

// A leader that is lost after the partitions were found is noticed, too.
func TestALeaderThatIsLostInBetween(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, b *bed) {
		found := false
		b.watch(kmsg.OffsetFetch, func(kmsg.Request) {
			if found {
				return
			}
			found = true
			b.cluster.SleepControl(func() { time.Sleep(time.Second) }) // what the client knows of leaders gets old
			b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "in", Partitions: []int32{2}, Err: kerr.LeaderNotAvailable, Count: -1})
		})
		_, err := b.open(nil).Starts(t.Context())
		var one *offsetstore.PartitionError
		if !errors.Is(err, kafkastore.ErrNoLeader) || !errors.As(err, &one) || one.TopicPartition != in(2) {
			t.Errorf("got %v, want %v for in/2", err, kafkastore.ErrNoLeader)
		}
	})
}

func TestAGroupWithMembersRefusesCommits(t *testing.T) {
	b := newBed(t)
	member := b.client(kgo.ConsumerGroup("nightly"), kgo.ConsumeTopics("in"), kgo.DisableAutoCommit())
	defer member.Close()
	member.PollFetches(t.Context())
	if err := b.open(nil).Save(t.Context(), done(0, 0, 1, "")); !errors.Is(err, kafkastore.ErrGroupInUse) {
		t.Errorf("got %v, want %v", err, kafkastore.ErrGroupInUse)
	}
}

func TestSettingsAreCheckedBeforeAnyConnection(t *testing.T) {
	good := kafkastore.Config{Brokers: []string{"h:1"}, Topics: []string{"in"}, Group: "g"}
	for names, change := range map[string]func(*kafkastore.Config){
		"Config.Brokers":  func(c *kafkastore.Config) { c.Brokers = []string{"h"} },
		"Config.Topics":   func(c *kafkastore.Config) { c.Topics = nil },
		"Config.Group":    func(c *kafkastore.Config) { c.Group = " " },
		"Config.Tries":    func(c *kafkastore.Config) { c.Tries = -1 },
		"Config.Pause":    func(c *kafkastore.Config) { c.Pause = -1 },
		"Config.Factor":   func(c *kafkastore.Config) { c.Factor = 0.5 },
		"Config.Timeout":  func(c *kafkastore.Config) { c.Timeout = -1 },
		"Config.Defaults": func(c *kafkastore.Config) { c.Defaults.Default = offsetstore.Since(time.UnixMilli(-1)) },
	} {
		cfg := good
		change(&cfg)
		if _, err := kafkastore.New(cfg); !errors.Is(err, kafkastore.ErrConfig) || !strings.Contains(err.Error(), names) {
			t.Errorf("got %v, want ErrConfig naming %s", err, names)
		}
	}
}

func TestNothingToSaveIsNoRequest(t *testing.T) {
	s := newBed(t).open(func(c *kafkastore.Config) { c.Brokers = []string{closedPort(t)} })
	if err := s.Save(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestRangesThatAreNoneAreRefused(t *testing.T) {
	s := newBed(t).open(nil)
	for what, ranges := range map[string][]offsetstore.PartitionRange{
		"backwards": {done(0, 5, 4, "")},
		"negative":  {done(0, -1, 4, "")},
		"twice":     {done(0, 0, 4, ""), done(0, 4, 5, "")},
		"no topic":  {{Range: offsetstore.Range{To: 1}}},
	} {
		if err := s.Save(t.Context(), ranges...); !errors.Is(err, kafkastore.ErrConfig) {
			t.Errorf("%s: got %v, want ErrConfig", what, err)
		}
	}
}
