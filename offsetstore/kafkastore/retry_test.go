package kafkastore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/offsetstore/kafkastore"
)

// watch has look see every request of a kind.
func (b *bed) watch(key kmsg.Key, look func(kmsg.Request)) {
	b.cluster.ControlKey(key.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		look(r)
		return nil, nil, false
	})
}

// fail has n requests of a kind fail, for partition 1 alone.
func (b *bed) fail(key kmsg.Key, code *kerr.Error, n int) {
	b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Topic: "in", Partitions: []int32{1}, Err: code, Count: n})
}

var coordinatorTrouble = []*kerr.Error{kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator}

func TestCoordinatorTroubleIsWaitedOut(t *testing.T) {
	for _, code := range coordinatorTrouble {
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

// The coordinator may not be found, either; that is no partition's fault, and not
// "nothing committed".
func TestAMissingCoordinatorIsWaitedFor(t *testing.T) {
	b := newBed(t)
	s := b.open(nil)
	missing := kfake.Fault{Keys: []kmsg.Key{kmsg.FindCoordinator}, Err: kerr.CoordinatorNotAvailable, Count: 2}
	b.cluster.Fault(missing)
	if err := s.Save(t.Context(), done(0, 0, 5, "")); err != nil {
		t.Errorf("saving: %v; two failures of three tries are to be borne", err)
	}
	missing.Count = -1
	b.cluster.Fault(missing)
	starts, err := b.open(nil).Starts(t.Context())
	var one *offsetstore.PartitionError
	if starts != nil || !errors.Is(err, kerr.CoordinatorNotAvailable) || errors.As(err, &one) {
		t.Errorf("got %v, %v; want no starts, and an error that blames no partition", starts, err)
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

// A leader that moves after it was looked up is looked up again.
func TestALeaderThatMovesIsFound(t *testing.T) {
	b := newBed(t)
	tries := 0
	b.watch(kmsg.ListOffsets, func(kmsg.Request) {
		if tries++; tries == 1 {
			b.cluster.SleepControl(func() {
				for p := range int32(3) {
					_ = b.cluster.MoveTopicPartition("in", p, (b.cluster.LeaderFor("in", p)+1)%3)
				}
			})
		}
	})
	if got := offsets(t, b.open(nil)); !slices.Equal(got, []string{"0 (earliest)", "0 (earliest)", "0 (earliest)"}) {
		t.Errorf("got %q", got)
	}
	if tries < 2 {
		t.Error("no leader has moved")
	}
}

// Only the partition that failed is sent again, and one that failed is never read
// as having nothing committed.
func TestOnlyWhatFailedIsTriedAgain(t *testing.T) {
	for _, c := range []struct {
		key   kmsg.Key
		count func(kmsg.Request) int // partitions in a request
		do    func(s *kafkastore.Store) error
	}{
		{kmsg.OffsetCommit, func(r kmsg.Request) (n int) {
			for _, topic := range r.(*kmsg.OffsetCommitRequest).Topics {
				n += len(topic.Partitions)
			}
			return n
		}, func(s *kafkastore.Store) error {
			return s.Save(t.Context(), done(0, 0, 1, ""), done(1, 0, 2, ""), done(2, 0, 3, ""))
		}},
		{kmsg.OffsetFetch, func(r kmsg.Request) (n int) {
			for _, topic := range r.(*kmsg.OffsetFetchRequest).Groups[0].Topics {
				n += len(topic.Partitions)
			}
			return n
		}, func(s *kafkastore.Store) error { _, err := s.Starts(t.Context()); return err }},
		{kmsg.ListOffsets, func(r kmsg.Request) (n int) {
			for _, topic := range r.(*kmsg.ListOffsetsRequest).Topics {
				n += len(topic.Partitions)
			}
			return n
		}, func(s *kafkastore.Store) error { _, err := s.Starts(t.Context()); return err }},
	} {
		t.Run(c.key.Name(), func(t *testing.T) {
			b := newBed(t)
			if c.key == kmsg.OffsetFetch {
				if err := b.open(nil).Save(t.Context(), done(0, 0, 1, "")); err != nil { // makes the group
					t.Fatal(err)
				}
			}
			s := b.open(nil)
			sent := 0
			b.watch(c.key, func(r kmsg.Request) { sent += c.count(r) })
			b.fail(c.key, kerr.RequestTimedOut, 1)
			b.fail(c.key, kerr.CoordinatorLoadInProgress, 1)
			if err := c.do(s); err != nil {
				t.Fatal(err)
			}
			if sent != 5 {
				t.Errorf("%d partitions were sent, want 3, 1 and 1", sent)
			}
			b.fail(c.key, kerr.CoordinatorLoadInProgress, 3)
			var one *offsetstore.PartitionError
			if err := c.do(s); !errors.As(err, &one) || one.TopicPartition != in(1) || !errors.Is(err, kerr.CoordinatorLoadInProgress) {
				t.Errorf("after three failures got %v, want one that names in/1", err)
			}
		})
	}
}

// waits returns how long it took until each request of a kind came, from the one
// before, while the coordinator is loading for ever.
func (b *bed) waits(change func(*kafkastore.Config)) (waits []time.Duration) {
	b.t.Helper()
	b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.CoordinatorLoadInProgress, Count: -1})
	var last time.Time
	b.watch(kmsg.OffsetFetch, func(kmsg.Request) {
		if !last.IsZero() {
			waits = append(waits, time.Since(last).Round(10*time.Millisecond))
		}
		last = time.Now()
	})
	if _, err := b.open(change).Starts(b.t.Context()); !errors.Is(err, kerr.CoordinatorLoadInProgress) {
		b.t.Errorf("got %v", err)
	}
	return waits
}

func TestThreeTriesHalfASecondAndASecondApart(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, b *bed) {
		waits := b.waits(func(c *kafkastore.Config) { c.Pause = 0 }) // the default
		if want := []time.Duration{500 * time.Millisecond, time.Second}; !slices.Equal(waits, want) {
			t.Errorf("waited %v, want %v", waits, want)
		}
	})
}

func TestTriesAndPausesAreConfigured(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, b *bed) {
		waits := b.waits(func(c *kafkastore.Config) { c.Tries, c.Pause, c.Factor = 4, 2*time.Second, 3 })
		if want := []time.Duration{2 * time.Second, 6 * time.Second, 18 * time.Second}; !slices.Equal(waits, want) {
			t.Errorf("waited %v, want %v", waits, want)
		}
	})
}

func TestWhatCannotPassIsNotTriedAgain(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.GroupAuthorizationFailed, kerr.InvalidGroupID, kerr.UnsupportedVersion} {
		b := newBed(t)
		f := b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: code, Count: -1})
		if _, err := b.open(nil).Starts(t.Context()); !errors.Is(err, code) || f.Hits() != 1 {
			t.Errorf("got %v after %d requests, want %v after one", err, f.Hits(), code)
		}
	}
}

// Of two failures the one that cannot pass decides.
func TestNothingIsTriedAgainBesideWhatCannotPass(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.OffsetFetch, kmsg.ListOffsets} {
		b := newBed(t)
		if err := b.open(func(c *kafkastore.Config) { c.Topics = []string{"other"} }).Save(t.Context(), offsetstore.PartitionRange{TopicPartition: offsetstore.TopicPartition{Topic: "other"}}); err != nil { // makes the group
			t.Fatal(err)
		}
		for p := range int32(3) { // all with one leader, so that they are asked for together
			if err := b.cluster.MoveTopicPartition("in", p, 0); err != nil {
				t.Fatal(err)
			}
		}
		b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Topic: "in", Partitions: []int32{0, 2}, Err: kerr.RequestTimedOut, Count: -1})
		b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Topic: "in", Partitions: []int32{1}, Err: kerr.TopicAuthorizationFailed, Count: -1})
		sent := 0
		b.watch(key, func(kmsg.Request) { sent++ })
		if _, err := b.open(nil).Starts(t.Context()); !errors.Is(err, kafkastore.ErrNotAuthorized) || sent != 1 {
			t.Errorf("%s: got %v after %d requests, want %v after one", key.Name(), err, sent, kafkastore.ErrNotAuthorized)
		}
	}
}

// A partition that an answer leaves out is neither stored nor without a commit.
func TestWhatIsNotAnsweredIsAnError(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.OffsetCommit, kmsg.OffsetFetch, kmsg.ListOffsets} {
		b := newBed(t)
		s := b.open(nil)
		b.cluster.ControlKey(key.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
			b.cluster.KeepControl()
			resp := r.ResponseKind()
			if fetched, ok := resp.(*kmsg.OffsetFetchResponse); ok {
				group := kmsg.NewOffsetFetchResponseGroup()
				group.Group = "nightly"
				fetched.Groups = append(fetched.Groups, group)
			}
			return resp, nil, true
		})
		var err error
		if key == kmsg.OffsetCommit {
			err = s.Save(t.Context(), done(0, 0, 1, ""))
		} else {
			_, err = s.Starts(t.Context())
		}
		if !errors.Is(err, kafkastore.ErrUnknownTopic) {
			t.Errorf("%s: got %v, want %v", key.Name(), err, kafkastore.ErrUnknownTopic)
		}
	}
}

func TestACancelEndsTheWait(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, b *bed) {
		s := b.open(func(c *kafkastore.Config) { c.Pause = time.Hour })
		b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.CoordinatorLoadInProgress, Count: -1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		before := time.Now()
		_, err := s.Starts(ctx)
		if took := time.Since(before); took != time.Minute || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, kerr.CoordinatorLoadInProgress) {
			t.Errorf("got %v after %v, want both causes after a minute", err, took)
		}
	})
}

// What is stored before a cancel is not named, and the rest is, with both causes.
func TestACancelledSaveSaysWhatIsStored(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, b *bed) {
		s := b.open(func(c *kafkastore.Config) { c.Pause = time.Hour })
		b.fail(kmsg.OffsetCommit, kerr.CoordinatorLoadInProgress, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := s.Save(ctx, done(0, 0, 3, ""), done(1, 0, 3, ""))
		var save *offsetstore.SaveError
		if !errors.As(err, &save) || len(save.Failed) != 1 || save.Failed[0].TopicPartition != in(1) {
			t.Fatalf("got %v, want only in/1", err)
		}
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, kerr.CoordinatorLoadInProgress) {
			t.Errorf("got %v, want both causes", err)
		}
		if got := offsets(t, s); got[0] != "3 (saved)" || got[1] != "0 (earliest)" {
			t.Errorf("got %q", got)
		}
	})
}

// If the brokers go away between two tries, that is why the rest is not stored.
func TestASaveThatIsCutOffSaysSo(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, b *bed) {
		s := b.open(nil)
		b.fail(kmsg.OffsetCommit, kerr.CoordinatorLoadInProgress, 1)
		b.watch(kmsg.OffsetCommit, func(kmsg.Request) { go b.cluster.Close() })
		err := s.Save(t.Context(), done(0, 0, 3, ""), done(1, 0, 3, ""))
		var all *kafkastore.BrokersError
		if !errors.As(err, &all) || errors.Is(err, kerr.CoordinatorLoadInProgress) {
			t.Errorf("got %v, want a *BrokersError", err)
		}
	})
}
