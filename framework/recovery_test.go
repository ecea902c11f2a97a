package framework_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/memory"
)

func TestRestartContinuesAtTheNextRecord(t *testing.T) {
	onBed(t, func(b *bed) {
		p := pipelineOf(t, copyAndSum)
		b.log.Produce("in", 0, "a=1", "a=1", "a=1")
		b.mustRun(p)
		b.wantPosition(in0, 3)
		b.log.Produce("in", 0, "a=1")
		b.mustRun(p)
		b.wantTotals(map[string]int{"a": 4})
		b.wantOnce()
		b.wantPosition(in0, 4)
		if m, ok := b.source.Mirrored(in0); !ok || m.Offset != 4 {
			t.Errorf("mirrored %v, %v; want 4", m, ok)
		}
		want := framework.Counters{Read: 4, Passed: 4}
		if got := b.counters(in0); got != want {
			t.Errorf("counters %+v, want %+v", got, want)
		}
	})
}

func TestRestartWithNothingNewRepeatsNothing(t *testing.T) {
	onBed(t, func(b *bed) {
		p := pipelineOf(t, copyAndSum)
		b.log.Produce("in", 0, "a=1", "a=1", "a=1")
		b.mustRun(p)
		stop := b.start(p)
		b.settle()
		b.log.Produce("in", 0, "a=1")
		b.settle()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		b.wantTotals(map[string]int{"a": 4})
		b.wantOnce()
		if c := b.counters(in0); c != (framework.Counters{Read: 4, Passed: 4}) {
			t.Errorf("counters %+v", c)
		}
	})
}

// Names are kept byte for byte: none is taken for another.
func TestNamesThatLookAlikeAreDifferentPipelines(t *testing.T) {
	onBed(t, func(b *bed) {
		b.log.Produce("in", 0, "a=1", "a=2")
		for _, name := range []string{"a-b", "ab", "a_b", "a.b"} {
			p, err := framework.NewPipeline(name, copyOf(framework.From(wires{})))
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := b.store.Position(name, in0); ok {
				t.Errorf("%q has a position before it ran", name)
			}
			b.mustRun(p)
			if n := b.store.Count(name); n != 2 {
				t.Errorf("%q has written %d rows, want 2", name, n)
			}
		}
	})
}

func TestStoredZeroDiffersFromNothingStored(t *testing.T) {
	onBed(t, func(b *bed) {
		b.cfg.Start.Default = offsetstore.Latest()
		p := pipelineOf(t, copyAndSum)
		b.log.Create("in", 1)
		stop := b.start(p) // first start, on an empty partition
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		b.wantPosition(in0, 0)
		b.log.Produce("in", 0, "a=1")
		b.mustRun(p)
		b.wantTotals(map[string]int{"a": 1})
	})
}

func TestPartitionBornLaterBeginsAtEarliestWhateverTheRule(t *testing.T) {
	onBed(t, func(b *bed) {
		b.cfg.Start.Default = offsetstore.Latest()
		p := pipelineOf(t, copyAndSum)
		b.log.Produce("in", 0, "old=1", "old=1")
		stop := b.start(p)
		b.log.Produce("in", 1, "x=1", "x=1")
		b.source.Assign(offsetstore.TopicPartition{Topic: "in", Partition: 1})
		time.Sleep(time.Minute)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		b.log.Produce("in", 2, "y=1") // while nobody runs
		b.mustRun(p)
		b.wantTotals(map[string]int{"x": 2, "y": 1})
	})
}

func TestTopicsAndPipelinesDoNotShareProgress(t *testing.T) {
	onBed(t, func(b *bed) {
		p := pipelineOf(t, copyOf)
		b.log.Produce("users", 0, "u=0", "u=1")
		b.log.Produce("orders", 0, "o=0")
		b.mustRun(p)
		b.log.Produce("orders", 0, "o=1")
		b.mustRun(p)
		b.wantRows("copy", "users/0@0: u=0", "users/0@1: u=1", "orders/0@0: o=0", "orders/0@1: o=1")
		b.wantOnce()
		b.wantPosition(offsetstore.TopicPartition{Topic: "users"}, 2)
		b.wantPosition(offsetstore.TopicPartition{Topic: "orders"}, 2)
	})
}

func TestPartialTotalsOfPartitionsNeverOverwriteEachOther(t *testing.T) {
	onBed(t, func(b *bed) {
		p := pipelineOf(t, sumOf)
		b.log.Produce("in", 0, "a=1")
		b.log.Produce("in", 1, "a=2", "b=5")
		b.mustRun(p)
		b.wantTotals(map[string]int{"a": 3, "b": 5})
		b.log.Produce("in", 1, "a=4")
		b.mustRun(p)
		b.wantTotals(map[string]int{"a": 7, "b": 5})
	})
}

// A save whose outcome is not known is settled by claiming again: the saved
// position tells whether it counts.
func TestUnknownOutcomeIsSettledByClaimingAgain(t *testing.T) {
	unknown := &framework.SaveError{Outcome: framework.Unknown, ClaimSpent: true, Err: framework.ErrUnknown}
	for _, c := range []struct {
		name    string
		applied bool
	}{{"it took effect, the answer was lost", true}, {"it never arrived", false}} {
		t.Run(c.name, func(t *testing.T) {
			onBed(t, func(b *bed) {
				fail := 1
				hook := func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[row]) error {
					if fail--; fail == 0 {
						return unknown
					}
					return nil
				}
				if c.applied {
					b.opts.Hooks.AfterSave = hook
				} else {
					b.opts.Hooks.BeforeSave = hook
				}
				b.log.Produce("in", 0, "a=1", "a=1")
				b.mustRun(pipelineOf(t, copyAndSum))
				b.wantTotals(map[string]int{"a": 2})
				b.wantOnce()
				b.wantPosition(in0, 2)
			})
		})
	}
}

// A sink that stays away after a save that it may have made: the error names both,
// and whatever is true is found at the next start.
func TestUnknownOutcomeIsNamedWhenTheSinkStaysAway(t *testing.T) {
	onBed(t, func(b *bed) {
		away := false
		b.opts.Hooks.AfterSave = func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[row]) error {
			away = true
			return &framework.SaveError{Outcome: framework.Unknown, ClaimSpent: true, Err: framework.ErrUnknown}
		}
		b.opts.Hooks.BeforeClaim = func(context.Context, string, offsetstore.TopicPartition) error {
			if away {
				return framework.ErrUnavailable
			}
			return nil
		}
		b.log.Produce("in", 0, "a=1", "a=1")
		err := b.run(pipelineOf(t, copyAndSum))
		wantError(t, err, framework.ErrUnknown, "in/0")
		wantError(t, err, framework.ErrUnavailable)
		b.opts.Hooks = memory.Hooks[row]{}
		b.mustRun(pipelineOf(t, copyAndSum))
		b.wantTotals(map[string]int{"a": 2})
		b.wantOnce()
	})
}

func TestSaveThatFailsForGoodStopsTheLaneAndKeepsThePosition(t *testing.T) {
	onBed(t, func(b *bed) {
		p := pipelineOf(t, copyAndSum)
		b.log.Produce("in", 0, "a=1", "a=1")
		b.mustRun(p)
		broken := errors.New("disk on fire")
		b.opts.Hooks.BeforeSave = func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[row]) error {
			return &framework.SaveError{Outcome: framework.NotSaved, Err: broken}
		}
		b.log.Produce("in", 0, "a=1", "a=1")
		began := time.Now()
		err := b.run(p)
		wantError(t, err, broken, `"test"`, "in/0", "position 2")
		var lane *framework.LaneError
		if !errors.As(err, &lane) || lane.Stage != "save" {
			t.Errorf("error %#v, want a *LaneError of stage save", err)
		}
		if took := time.Since(began); took < 5*time.Minute || took > 10*time.Minute {
			t.Errorf("gave up after %s, want a little over RecoverWithin", took)
		}
		b.wantPosition(in0, 2)
		if m, ok := b.source.Mirrored(in0); ok {
			t.Errorf("mirrored %v although nothing was saved", m)
		}
		b.opts.Hooks.BeforeSave = nil
		b.mustRun(p)
		b.wantTotals(map[string]int{"a": 4})
		b.wantOnce()
	})
}

func TestRefusedBatchIsNotRetried(t *testing.T) {
	onBed(t, func(b *bed) {
		saves := 0
		b.opts.Hooks.BeforeSave = func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[row]) error {
			saves++
			return &framework.SaveError{Outcome: framework.NotSaved, Err: framework.ErrRefused}
		}
		b.log.Produce("in", 0, "a=1")
		wantError(t, b.run(pipelineOf(t, copyOf)), framework.ErrRefused)
		if saves != 1 {
			t.Errorf("%d saves, want 1", saves)
		}
	})
}

func TestPanickingSinkIsAnUnknownOutcome(t *testing.T) {
	onBed(t, func(b *bed) {
		first := true
		b.opts.Hooks.AfterSave = func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[row]) error {
			if first {
				first = false
				panic("sink bug")
			}
			return nil
		}
		b.log.Produce("in", 0, "a=1")
		b.mustRun(pipelineOf(t, copyAndSum))
		b.wantTotals(map[string]int{"a": 1})
		b.wantOnce()
	})
}

// Two processes believe they own the same partition. Only one can save at a
// time, and between them every record counts once.
func TestTwoOwnersNeverCountTwice(t *testing.T) {
	onBed(t, func(b *bed) {
		p := pipelineOf(t, copyAndSum)
		b.cfg.FenceTries = 1000
		want := 0
		b.log.Create("in", 1)
		stop1 := b.start(p)
		stop2 := b.start(p)
		for i := range 50 {
			b.log.Produce("in", 0, fmt.Sprintf("a=%d", i))
			want += i
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Minute)
		if err := errors.Join(stop1(), stop2()); err != nil {
			t.Error(err)
		}
		b.mustRun(p)
		b.wantTotals(map[string]int{"a": want})
		b.wantOnce()
	})
}

func TestFencedLaneThatIsNotOwnerAnyMoreEndsQuietly(t *testing.T) {
	onBed(t, func(b *bed) {
		p := pipelineOf(t, copyOf)
		b.log.Produce("in", 0, "a=1")
		stop := b.start(p)
		b.source.Disown(in0)
		thief := b.store.Open(b.opts)
		if _, err := thief.Claim(b.t.Context(), "test", in0, offsetstore.At(0)); err != nil {
			t.Fatal(err)
		}
		b.log.Produce("in", 0, "a=2")
		time.Sleep(time.Hour)
		if owner := b.lane(in0).Owner; owner != "sink-2" {
			t.Errorf("owner %q: the fenced lane has claimed again although the group had taken the partition away", owner)
		}
		if err := stop(); err != nil {
			t.Errorf("Run returned %v, want nil: losing a partition is no failure", err)
		}
		b.wantPosition(in0, 1)
	})
}

func TestFencedLaneThatIsStillOwnerClaimsAgain(t *testing.T) {
	onBed(t, func(b *bed) {
		p := pipelineOf(t, copyOf)
		b.log.Produce("in", 0, "a=1")
		stop := b.start(p)
		if _, err := b.store.Open(b.opts).Claim(b.t.Context(), "test", in0, offsetstore.At(0)); err != nil {
			t.Fatal(err) // an operator's tool, say
		}
		b.log.Produce("in", 0, "a=2")
		time.Sleep(time.Minute)
		b.wantPosition(in0, 2)
		if err := stop(); err != nil {
			t.Error(err)
		}
		b.wantOnce()
	})
}

func TestClaimThatFailsForAWhileIsRetriedAndHoldsUpNobody(t *testing.T) {
	onBed(t, func(b *bed) {
		var up atomic.Bool
		b.opts.Hooks.BeforeClaim = func(_ context.Context, _ string, tp offsetstore.TopicPartition) error {
			if !up.Load() && tp == in0 {
				return framework.ErrUnavailable
			}
			return nil
		}
		b.log.Produce("in", 0, "a=1")
		b.log.Produce("in", 1, "b=1")
		stop := b.start(pipelineOf(t, copyOf))
		time.Sleep(30 * time.Second)
		b.wantPosition(in1, 1)
		up.Store(true)
		time.Sleep(30 * time.Second)
		b.wantPosition(in0, 1)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestRevokeFinishesTheSaveInFlightAndReleases(t *testing.T) {
	onBed(t, func(b *bed) {
		b.opts.Hooks.BeforeSave = func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[row]) error {
			time.Sleep(5 * time.Second)
			return nil
		}
		b.log.Produce("in", 0, "a=1", "a=2")
		stop := b.start(pipelineOf(t, copyOf))
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
		defer cancel()
		b.source.Revoke(ctx, in0)
		b.wantPosition(in0, 2)
		if owner := b.lane(in0).Owner; owner != "" {
			t.Errorf("still owned by %q after the revoke", owner)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestRevokeEndsAtItsDeadlineAndTheFenceDecides(t *testing.T) {
	onBed(t, func(b *bed) {
		b.opts.Hooks.BeforeSave = func(ctx context.Context, _ string, _ offsetstore.TopicPartition, _ *framework.Batch[row]) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		b.log.Produce("in", 0, "a=1")
		stop := b.start(pipelineOf(t, copyOf))
		ctx, cancel := context.WithTimeout(b.t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		b.source.Revoke(ctx, in0)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("the revoke took %s, want its deadline of 3s", took)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		b.wantPosition(in0, 0)
	})
}

func TestPartitionThatComesBackIsClaimedAnew(t *testing.T) {
	onBed(t, func(b *bed) {
		p := pipelineOf(t, copyAndSum)
		b.log.Produce("in", 0, "a=1")
		stop := b.start(p)
		for i := range 10 {
			if i%2 == 0 {
				b.source.Lose(in0)
			} else {
				b.source.Revoke(b.t.Context(), in0)
			}
			b.log.Produce("in", 0, "a=1")
			b.source.Assign(in0)
			time.Sleep(time.Minute)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		b.wantTotals(map[string]int{"a": 11})
		b.wantOnce()
	})
}

func TestDrainTimeoutGivesUpWhatIsNotSaved(t *testing.T) {
	onBed(t, func(b *bed) {
		b.opts.Hooks.BeforeSave = func(ctx context.Context, _ string, _ offsetstore.TopicPartition, _ *framework.Batch[row]) error {
			<-ctx.Done()
			return ctx.Err()
		}
		b.log.Produce("in", 0, "a=1")
		stop := b.start(pipelineOf(t, copyOf))
		wantError(t, stop(), framework.ErrDrainTimeout, `"test"`)
		b.wantPosition(in0, 0)
		b.wantRows("copy")
	})
}

func TestStopSavesWhatWasProcessed(t *testing.T) {
	onBed(t, func(b *bed) {
		release := make(chan struct{})
		first := true
		b.opts.Hooks.BeforeSave = func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[row]) error {
			if first {
				first = false
				<-release
			}
			return nil
		}
		b.log.Produce("in", 0, "a=1")
		stop := b.start(pipelineOf(t, copyOf))
		b.log.Produce("in", 0, "a=2") // processed while the first is being saved
		synctest.Wait()
		time.AfterFunc(time.Second, func() { close(release) })
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		b.wantPosition(in0, 2)
		b.wantOnce()
	})
}

func TestOutOfOrderDeliveryNeverPassesARecordOver(t *testing.T) {
	rec := func(offset int64) framework.Record { return framework.Record{Offset: offset, Value: []byte("a=1")} }
	for _, c := range []struct {
		name     string
		deliver  []int64
		total    int
		position int64
		err      error
		repeated int64
	}{
		{"half of it saved before", []int64{3, 4, 5, 6}, 7, 7, nil, 2},
		{"all of it saved before", []int64{0, 1, 2}, 5, 5, nil, 3},
		{"the same record twice", []int64{5, 5, 6}, 7, 7, nil, 1},
		{"a lower offset after a higher", []int64{6, 5}, 5, 5, framework.ErrOrder, 0},
		{"a gap upwards", []int64{9}, 6, 10, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			onBed(t, func(b *bed) {
				p := pipelineOf(t, sumOf)
				b.log.Produce("in", 0, "a=1", "a=1", "a=1", "a=1", "a=1")
				b.mustRun(p)
				stop := b.start(p)
				var records []framework.Record
				for _, o := range c.deliver {
					records = append(records, rec(o))
				}
				b.source.Deliver(in0, records...)
				time.Sleep(time.Minute)
				err := stop()
				if c.err == nil && err != nil {
					t.Error(err)
				} else if c.err != nil {
					wantError(t, err, c.err, "in/0")
				}
				b.wantPosition(in0, c.position)
				b.wantTotals(map[string]int{"a": c.total})
				if got := b.counters(in0).AlreadySaved; c.position > 5 && got != c.repeated {
					t.Errorf("already saved: %d, want %d", got, c.repeated)
				}
			})
		})
	}
}

func TestGapsInOffsetsAreLegal(t *testing.T) {
	onBed(t, func(b *bed) {
		for _, o := range []int64{0, 1, 5, 9} {
			b.log.Append("in", 0, framework.Record{Offset: o, Value: []byte("a=1")})
		}
		p := pipelineOf(t, sumOf)
		b.mustRun(p)
		b.wantTotals(map[string]int{"a": 4})
		b.wantPosition(in0, 10)
		b.log.Append("in", 0, framework.Record{Offset: 10, Value: []byte("a=1")})
		b.mustRun(p)
		b.wantTotals(map[string]int{"a": 5})
		b.wantPosition(in0, 11)
	})
}
