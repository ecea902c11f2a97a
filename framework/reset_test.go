package framework_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// positionError returns what err says of a position, or fails the test.
func positionError(t *testing.T, err, want error, texts ...string) *framework.PositionError {
	t.Helper()
	wantError(t, err, want, texts...)
	var pe *framework.PositionError
	if !errors.As(err, &pe) {
		t.Fatalf("error %v is no *PositionError", err)
	}
	return pe
}

func TestRecreatedTopicGoesOnOnceItsPositionIsMoved(t *testing.T) {
	onBed(t, func(b *bed) {
		b.cfg.Start.Default = offsetstore.Latest() // not for partitions that come later
		p := pipelineOf(t, copyAndSum)
		b.log.Create("in", 1)
		stop := b.start(p)
		b.log.Produce("in", 0, "old=1", "old=1", "old=1")
		time.Sleep(time.Minute)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		b.log.Recreate("in", 2)
		b.log.Produce("in", 0, "new=1", "new=1", "new=1", "new=1")
		b.log.Produce("in", 1, "new=1") // a partition that the old topic did not have

		pe := positionError(t, b.run(p), framework.ErrTopicRecreated, "Reset")
		b.wantPosition(in0, 3)
		b.move(in0, offsetstore.Position{Offset: 1, LeaderEpoch: offsetstore.NoLeaderEpoch, TopicID: pe.TopicID})
		b.mustRun(p)
		b.wantTotals(map[string]int{"old": 3, "new": 4})
		for _, tp := range []offsetstore.TopicPartition{in0, in1} {
			if got := b.lane(tp).Position.TopicID; got != pe.TopicID {
				t.Errorf("the position of %s belongs to topic %s, want %s", tp, got, pe.TopicID)
			}
		}

		b.log.Produce("in", 0, "new=1") // and goes on after a restart
		b.mustRun(p)
		b.wantTotals(map[string]int{"old": 3, "new": 5})
	})
}

func TestTruncatedLogGoesOnOnceItsPositionIsMoved(t *testing.T) {
	onBed(t, func(b *bed) {
		p := pipelineOf(t, copyOf)
		b.log.Produce("in", 0, "a=0", "a=1", "a=2")
		b.mustRun(p)
		b.log.Truncate("in", 0, 1)
		b.log.Produce("in", 0, "b=1")
		pe := positionError(t, b.run(p), framework.ErrAboveLogEnd, "Reset", "position 3", "0..2")
		b.move(in0, offsetstore.Position{Offset: 1, LeaderEpoch: offsetstore.NoLeaderEpoch, TopicID: pe.TopicID})
		b.mustRun(p)
		b.wantRows("copy", "in/0@0: a=0", "in/0@1: b=1", "in/0@2: a=2") // what was written stays
		b.wantPosition(in0, 2)
	})
}

func TestPositionBelowTheLogSaysWhatCanBeSet(t *testing.T) {
	onBed(t, func(b *bed) {
		p := pipelineOf(t, copyOf)
		b.log.Produce("in", 0, "a=0")
		b.mustRun(p)
		b.log.Produce("in", 0, "a=1", "a=2")
		b.log.Retain("in", 0, 2)
		positionError(t, b.run(p), framework.ErrBelowLogStart, "PositionEarliest", "Reset", "1 offsets")
	})
}

// Records that are done again are added again, unless their totals are dropped with
// the step that moves the position.
func TestTotalsAfterAResetFollowWhatBecameOfTheState(t *testing.T) {
	for drop, want := range map[bool]int{false: 6, true: 3} {
		onBed(t, func(b *bed) {
			p := pipelineOf(t, sumOf)
			b.log.Produce("in", 0, "a=1", "a=1", "a=1")
			stop := b.start(p) // a running lane keeps totals in memory
			to := b.lane(in0).Position
			to.Offset = 0
			b.reset(in0, to, drop)
			b.log.Produce("in", 0, "b=1")
			b.settle()
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			b.wantPosition(in0, 4)
			b.wantTotals(map[string]int{"a": want, "b": 1})
		})
	}
}

// Start rules hold for the first start. An exact offset that retention has removed
// since must not keep a pipeline from going on.
func TestExactStartThatRetentionRemovedDoesNotKeepARestart(t *testing.T) {
	onBed(t, func(b *bed) {
		b.cfg.Start.Default = offsetstore.Exact(1)
		p := pipelineOf(t, copyAndSum)
		b.log.Produce("in", 0, "a=0", "a=1", "a=2")
		b.mustRun(p)
		b.log.Produce("in", 0, "a=3")
		b.log.Retain("in", 0, 3)
		b.log.Append("in", 1, framework.Record{Offset: -1, Value: []byte("b=1")})
		b.mustRun(p)
		b.wantTotals(map[string]int{"a": 6, "b": 1})
	})
}

func TestExactStartOutsideTheLogIsRefusedAtTheFirstStart(t *testing.T) {
	onBed(t, func(b *bed) {
		b.cfg.Start.Default = offsetstore.Exact(7)
		b.log.Produce("in", 0, "a=0")
		wantError(t, b.run(pipelineOf(t, copyOf)), framework.ErrConfig, "Config.Start", "offset 7", "0..1")
		if _, ok := b.store.Lane("test", in0); ok {
			t.Error("a position was stored")
		}
	})
}
