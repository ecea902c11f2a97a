package framework_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// A save that fails after the lane has ended for another reason does not change
// what the error says.
func TestErrorNamesWhatFailedFirst(t *testing.T) {
	onBed(t, func(b *bed) {
		held := make(chan struct{})
		b.opts.Hooks.BeforeSave = func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[row]) error {
			<-held
			return &framework.SaveError{Outcome: framework.NotSaved, Err: framework.ErrTooLarge}
		}
		loads := 0
		b.opts.Hooks.BeforeLoad = func(context.Context, string, offsetstore.TopicPartition, []framework.StateKey) error {
			if loads++; loads == 1 {
				return nil
			}
			time.AfterFunc(time.Second, func() { close(held) })
			return framework.ErrCorrupt
		}
		b.cfg.BatchRecords = 1
		b.log.Produce("in", 0, "a=1", "b=1")
		err := b.run(pipelineOf(t, sumOf))
		wantError(t, err, framework.ErrCorrupt, "reduce")
		var le *framework.LaneError
		if !errors.As(err, &le) || le.Stage != "reduce" {
			t.Errorf("error %v does not name the stage reduce", err)
		}
		b.wantPosition(in0, 0)
	})
}

func TestSinkThatEndsTheSavesGoroutineIsAnUnknownOutcome(t *testing.T) {
	onBed(t, func(b *bed) {
		saves := 0
		b.opts.Hooks.AfterSave = func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[row]) error {
			if saves++; saves == 1 {
				runtime.Goexit() // what t.FailNow does in a fake
			}
			return nil
		}
		b.log.Produce("in", 0, "a=1", "a=2")
		b.mustRun(pipelineOf(t, copyAndSum))
		b.wantTotals(map[string]int{"a": 3})
		b.wantOnce()
	})
}

func TestClaimThatPanicsGivesItsTurnToOthers(t *testing.T) {
	onBed(t, func(b *bed) {
		b.cfg.ClaimsAtOnce, b.cfg.KeepOthers = 1, true
		b.opts.Hooks.BeforeClaim = func(_ context.Context, _ string, tp offsetstore.TopicPartition) error {
			if tp == in0 {
				panic("driver")
			}
			return nil
		}
		b.log.Create("in", 1)
		stop := b.start(pipelineOf(t, sumOf))
		b.log.Produce("in", 1, "a=1")
		b.source.Assign(in1)
		time.Sleep(time.Minute)
		wantError(t, stop(), framework.ErrPanic, "in/0")
		b.wantTotals(map[string]int{"a": 1})
	})
}

// What a source reports late, of reading that a new claim has ended, is void.
func TestFailureOfAnEarlierStartIsForgotten(t *testing.T) {
	onBed(t, func(b *bed) {
		claims, saves := 0, 0
		b.opts.Hooks.BeforeClaim = func(context.Context, string, offsetstore.TopicPartition) error {
			if claims++; claims == 2 {
				b.source.Fail(in0, errors.New("broken pipe"))
			}
			return nil
		}
		b.opts.Hooks.BeforeSave = func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[row]) error {
			if saves++; saves == 1 {
				return framework.ErrUnknown
			}
			return nil
		}
		b.log.Produce("in", 0, "a=1", "a=2")
		b.mustRun(pipelineOf(t, copyAndSum))
		b.wantTotals(map[string]int{"a": 3})
		if claims != 2 {
			t.Errorf("%d claims, want 2", claims)
		}
	})
}

func TestPartitionLostWhileItIsClaimedIsLeftAlone(t *testing.T) {
	onBed(t, func(b *bed) {
		claiming := make(chan struct{})
		b.opts.Hooks.BeforeClaim = func(context.Context, string, offsetstore.TopicPartition) error {
			<-claiming // a sink that does not look at its context
			return nil
		}
		b.log.Produce("in", 0, "a=1")
		stop := b.start(pipelineOf(t, copyOf))
		b.source.Lose(in0)
		close(claiming)
		synctest.Wait()
		if l, ok := b.store.Lane("test", in0); ok && l.Position.Offset != 0 {
			t.Errorf("the position moved to %d", l.Position.Offset)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A position that is moved under a running lane fences it; it goes on from there.
func TestPositionMovedUnderARunningLaneIsFollowed(t *testing.T) {
	onBed(t, func(b *bed) {
		b.log.Produce("in", 0, "a=0", "a=1", "a=2", "a=3")
		stop := b.start(pipelineOf(t, copyOf))
		b.move(in0, offsetstore.At(1))
		b.log.Produce("in", 0, "a=4")
		time.Sleep(time.Minute)
		b.wantPosition(in0, 5)
		if err := stop(); err != nil {
			t.Error(err)
		}
		seen := map[string]int{}
		for _, w := range b.lane(in0).Writes {
			seen[w.Key]++
		}
		for key, want := range map[string]int{"in/0@0": 1, "in/0@1": 2, "in/0@3": 2, "in/0@4": 1} {
			if seen[key] != want {
				t.Errorf("%s was written %d times, want %d", key, seen[key], want)
			}
		}
	})
}

func TestCloseOfTheSinkUnderARunningLaneIsAnError(t *testing.T) {
	onBed(t, func(b *bed) {
		sink := b.store.Open(b.opts)
		b.log.Produce("in", 0, "a=0")
		r := b.runnerOn(pipelineOf(t, copyOf), sink)
		ended := make(chan error, 1)
		go func() { ended <- r.Run(b.t.Context()) }()
		synctest.Wait()
		if err := sink.Close(b.t.Context()); err != nil {
			t.Fatal(err)
		}
		b.log.Produce("in", 0, "a=1")
		wantError(t, <-ended, framework.ErrClosed, "in/0 at position 1", "save")
		b.wantPosition(in0, 1)
	})
}

// What a lane holds is given back however its saves end: else the partition would
// be paused for good sooner or later.
func TestSavesGiveBackWhatTheyHeld(t *testing.T) {
	onBed(t, func(b *bed) {
		b.cfg.BufferBytes, b.cfg.BatchRecords = 16<<10, 5
		saves := 0
		b.opts.Hooks.BeforeSave = func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[row]) error {
			if saves++; saves > 50 {
				return nil // a long tenure, in which any loss adds up
			}
			switch saves % 7 {
			case 0:
				return framework.ErrUnknown // spends the claim
			case 3:
				return &framework.SaveError{Outcome: framework.NotSaved, Err: framework.ErrTooLarge}
			case 5:
				return &framework.SaveError{Outcome: framework.NotSaved, Err: framework.ErrUnavailable}
			}
			return nil
		}
		const records = 10_000
		for range records {
			b.log.Produce("in", 0, "a=1")
		}
		stop := b.start(pipelineOf(t, copyAndSum, framework.OnOutputFailure(framework.FailurePolicy{Action: framework.ActionSkip})))
		time.Sleep(time.Hour)
		b.wantPosition(in0, records)
		if b.source.Paused(in0) {
			t.Error("the partition is paused although nothing is left to do")
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		c := b.counters(in0)
		b.wantTotals(map[string]int{"a": records - int(c.Skipped)})
		b.wantOnce()
	})
}
