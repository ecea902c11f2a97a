package kafkastore_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

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

// watch has look see every request of a kind.
func watch(c *kfake.Cluster, key kmsg.Key, look func(kmsg.Request)) {
	c.ControlKey(key.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		look(r)
		return nil, nil, false
	})
}

func TestCoordinatorTroubleIsWaitedOut(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator} {
		t.Run(code.Message, func(t *testing.T) {
			b := newBed(t)
			s := b.open(nil)
			b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: code, Count: 2})
			if err := s.Save(t.Context(), done(0, 0, 5, "")); err != nil {
				t.Errorf("saving: %v; two failures of three tries are to be borne", err)
			}
			b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: code, Count: 2})
			if got := offsets(t, s)[0]; got != "5 (saved)" {
				t.Errorf("got %s", got)
			}
			b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: code, Count: 3})
			if _, err := s.Starts(t.Context()); !errors.Is(err, code) {
				t.Errorf("after three failures got %v, want %v", err, code)
			}
			b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: code, Count: 3})
			if err := s.Save(t.Context(), done(0, 0, 6, "")); !errors.Is(err, code) {
				t.Errorf("after three failures got %v, want %v", err, code)
			}
		})
	}
}

func TestACoordinatorThatMovesIsFound(t *testing.T) {
	b := newBed(t)
	s := b.open(nil)
	for n := range int64(10) {
		if err := s.Save(t.Context(), done(0, n, n+1, "")); err != nil {
			t.Fatal(err)
		}
		if got := offsets(t, s)[0]; !strings.HasPrefix(got, string('0'+rune(n)+1)) && n < 9 {
			t.Errorf("after %d saves: %s", n+1, got)
		}
		b.cluster.RehashCoordinators()
		b.cluster.ShufflePartitionLeaders()
	}
}

// Only the partition that failed is sent again, and one that failed is never read
// as having nothing committed.
func TestOnlyWhatFailedIsTriedAgain(t *testing.T) {
	b := newBed(t)
	s := b.open(nil)
	var sent []int
	watch(b.cluster, kmsg.OffsetCommit, func(r kmsg.Request) {
		n := 0
		for _, topic := range r.(*kmsg.OffsetCommitRequest).Topics {
			n += len(topic.Partitions)
		}
		sent = append(sent, n)
	})
	b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Topic: "in", Partitions: []int32{1}, Err: kerr.RequestTimedOut})
	b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Topic: "in", Partitions: []int32{1}, Err: kerr.CoordinatorLoadInProgress})
	if err := s.Save(t.Context(), done(0, 0, 1, ""), done(1, 0, 2, ""), done(2, 0, 3, "")); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(sent, []int{3, 1, 1}) {
		t.Errorf("the requests held %v partitions, want 3, 1, 1", sent)
	}
	if got := offsets(t, s); !slices.Equal(got, []string{"1 (saved)", "2 (saved)", "3 (saved)"}) {
		t.Errorf("got %q", got)
	}
	b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Topic: "in", Partitions: []int32{1}, Err: kerr.UnstableOffsetCommit, Count: 3})
	starts, err := s.Starts(t.Context())
	var one *offsetstore.PartitionError
	if !errors.As(err, &one) || one.TopicPartition != in(1) || starts != nil {
		t.Errorf("got %v, %v; want an error naming in/1 and no starts", starts, err)
	}
}

func TestMetadataTooLarge(t *testing.T) {
	b := newBed(t)
	s := b.open(nil)
	b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Topic: "in", Partitions: []int32{1}, Err: kerr.OffsetMetadataTooLarge})
	commits := 0
	watch(b.cluster, kmsg.OffsetCommit, func(kmsg.Request) { commits++ })
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

func TestAuthorization(t *testing.T) {
	b := newBed(t)
	for key, code := range map[kmsg.Key]*kerr.Error{
		kmsg.Metadata:    kerr.TopicAuthorizationFailed,
		kmsg.OffsetFetch: kerr.GroupAuthorizationFailed,
		kmsg.ListOffsets: kerr.TopicAuthorizationFailed,
	} {
		f := b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: code, Count: -1})
		if _, err := b.open(nil).Starts(t.Context()); !errors.Is(err, kafkastore.ErrNotAuthorized) || !errors.Is(err, code) {
			t.Errorf("%v: got %v, want %v", key.Name(), err, kafkastore.ErrNotAuthorized)
		}
		f.Remove()
	}
	b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.GroupAuthorizationFailed})
	if err := b.open(nil).Save(t.Context(), done(0, 0, 1, "")); !errors.Is(err, kafkastore.ErrNotAuthorized) {
		t.Errorf("saving: got %v, want %v", err, kafkastore.ErrNotAuthorized)
	}
}

func TestNoLeader(t *testing.T) {
	b := newBed(t)
	s := b.open(nil)
	b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "in", Partitions: []int32{2}, Err: kerr.LeaderNotAvailable, Count: -1})
	_, err := s.Partitions(t.Context())
	var one *offsetstore.PartitionError
	if !errors.Is(err, kafkastore.ErrNoLeader) || !errors.As(err, &one) || one.TopicPartition != in(2) {
		t.Errorf("got %v, want %v for in/2", err, kafkastore.ErrNoLeader)
	}
}

func TestAGroupWithMembersRefusesCommits(t *testing.T) {
	b := newBed(t)
	member, err := kgo.NewClient(kgo.SeedBrokers(b.cluster.ListenAddrs()...), kgo.ConsumerGroup("nightly"), kgo.ConsumeTopics("in"), kgo.DisableAutoCommit())
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	member.PollFetches(t.Context())
	if err := b.open(nil).Save(t.Context(), done(0, 0, 1, "")); !errors.Is(err, kafkastore.ErrGroupInUse) {
		t.Errorf("got %v, want %v", err, kafkastore.ErrGroupInUse)
	}
}

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestWithoutAnyBrokerEachIsListed(t *testing.T) {
	b := newBed(t)
	dead := []string{closedPort(t), closedPort(t)}
	s := b.open(func(c *kafkastore.Config) { c.Brokers = dead })
	for what, err := range map[string]error{
		"Starts": func() error { _, err := s.Starts(t.Context()); return err }(),
		"Save":   s.Save(t.Context(), done(0, 0, 1, "")),
	} {
		var all *kafkastore.BrokersError
		if !errors.As(err, &all) || len(all.Brokers) != 2 {
			t.Errorf("%s: got %v, want a *BrokersError with both brokers", what, err)
			continue
		}
		for _, address := range dead {
			if !strings.Contains(err.Error(), address) {
				t.Errorf("%s: %v does not name %s", what, err, address)
			}
		}
	}
}

// One live broker among dead ones is enough, and costs no try.
func TestOneLiveBrokerIsEnough(t *testing.T) {
	b := newBed(t)
	s := b.open(func(c *kafkastore.Config) {
		c.Brokers = []string{closedPort(t), closedPort(t), closedPort(t), b.cluster.ListenAddrs()[0]}
		c.Tries = 1
	})
	if err := s.Save(t.Context(), done(0, 0, 1, "")); err != nil {
		t.Error(err)
	}
}

func TestACancelEndsTheWait(t *testing.T) {
	b := newBed(t)
	s := b.open(func(c *kafkastore.Config) { c.Pause = time.Hour })
	b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.CoordinatorLoadInProgress, Count: -1})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := s.Starts(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
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
