package framework_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/frameworktest"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/memory"
)

// Once: a failure reported between Start and Resume is forgotten: the lane waits for ever.
func TestFailureReportedBeforeResumeIsKept(t *testing.T) {
	onBed(t, func(b *bed) {
		b.log.Produce("in", 0, "a=0")
		gone := &framework.PositionError{TopicPartition: in0, Err: framework.ErrTopicRecreated}
		b.cfg.Hooks.Claimed = func(framework.ClaimedEvent) { b.source.Fail(in0, gone) } // Start has returned, Resume not called
		stop := b.start(pipelineOf(t, copyOf))
		time.Sleep(time.Minute)
		wantError(t, stop(), framework.ErrTopicRecreated)
	})
}

// Once: Failed with an error that is no PositionError is retried for minutes; "The lane stops with that error".
func TestFailedStopsTheLane(t *testing.T) {
	onBed(t, func(b *bed) {
		b.log.Produce("in", 0, "a=0")
		broken := errors.New("bytes cannot be decoded")
		recovering := 0
		b.cfg.Hooks.Recovering = func(framework.RecoveringEvent) { recovering++ }
		stop := b.start(pipelineOf(t, copyOf))
		b.source.Fail(in0, broken)
		time.Sleep(time.Minute)
		wantError(t, stop(), broken)
		if recovering > 0 {
			t.Errorf("claimed again %d times", recovering)
		}
	})
}

// Once: what was delivered before a failure of the log is thrown away, and lost.
func TestDeliveredRecordsSurviveALogFailure(t *testing.T) {
	onBed(t, func(b *bed) {
		b.cfg.BelowLogStart = framework.PositionEarliest
		held := make(chan struct{})
		var once sync.Once
		b.opts.Hooks.BeforeSave = func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[row]) error {
			once.Do(func() { <-held })
			return nil
		}
		b.log.Produce("in", 0, "a=0")
		stop := b.start(pipelineOf(t, copyOf))
		b.log.Produce("in", 0, "a=1", "a=2", "a=3")
		synctest.Wait() // all four are delivered and processed
		b.log.Retain("in", 0, 10)
		b.source.Fail(in0, &framework.PositionError{TopicPartition: in0, Position: offsetstore.At(4), LogStart: 10, LogEnd: 10, Err: framework.ErrBelowLogStart})
		synctest.Wait()
		close(held)
		time.Sleep(time.Minute)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if c := b.counters(in0); c.Read != 4 || c.Lost != 6 {
			t.Errorf("counters %+v: 4 records had been delivered, only 4..9 are lost", c)
		}
	})
}

// Once: dead letter that is itself too large: claims again without rest for ever.
func TestDeadLetterTooLargeEnds(t *testing.T) {
	for _, kind := range []string{"dead letter", "load"} {
		t.Run(kind, func(t *testing.T) {
			onBed(t, func(b *bed) {
				tries := 0
				enough := errors.New("enough")
				tooLarge := func() error {
					if tries++; tries > 1000 {
						return &framework.SaveError{Outcome: framework.NotSaved, Err: fmt.Errorf("%w: %w", framework.ErrRefused, enough)}
					}
					return &framework.SaveError{Outcome: framework.NotSaved, Err: framework.ErrTooLarge}
				}
				shape, opts := copyOf, []framework.PipelineOption{}
				if kind == "load" {
					shape = sumOf
					b.opts.Hooks.BeforeLoad = func(context.Context, string, offsetstore.TopicPartition, []framework.StateKey) error {
						return tooLarge()
					}
				} else {
					opts = append(opts, framework.OnOutputFailure(framework.FailurePolicy{Action: framework.ActionDeadLetter}))
					b.opts.Hooks.BeforeSave = func(_ context.Context, _ string, _ offsetstore.TopicPartition, bt *framework.Batch[row]) error {
						for _, w := range bt.Writes {
							if len(w.Value.(string)) > 100 {
								return tooLarge()
							}
						}
						for _, d := range bt.DeadLetters {
							if len(d.Value) > 100 {
								return tooLarge()
							}
						}
						return nil
					}
				}
				v := "1"
				if kind != "load" {
					v = strings.Repeat("x", 200)
				}
				b.log.Produce("in", 0, "a="+v)
				began := time.Now()
				err := b.run(pipelineOf(t, shape, opts...))
				t.Logf("%v after %s (virtual), %d tries", err, time.Since(began), tries)
				if errors.Is(err, enough) {
					t.Errorf("claimed again %d times within %s", tries, time.Since(began))
				}
			})
		})
	}
}

// Once: two passing faults of the sink, an hour of silence between them, fail the lane.
func TestRecoverWithinDoesNotCountSilence(t *testing.T) {
	onBed(t, func(b *bed) {
		b.log.Create("in", 1)
		claims, saves := 0, 0
		b.opts.Hooks.BeforeClaim = func(context.Context, string, offsetstore.TopicPartition) error {
			if claims++; claims == 1 {
				return framework.ErrUnavailable
			}
			return nil
		}
		b.opts.Hooks.BeforeSave = func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[row]) error {
			if saves++; saves == 1 {
				return &framework.SaveError{Outcome: framework.NotSaved, Err: framework.ErrUnavailable}
			}
			return nil
		}
		stop := b.start(pipelineOf(t, copyOf))
		time.Sleep(time.Hour)
		b.log.Produce("in", 0, "a=1")
		time.Sleep(time.Minute)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		b.wantPosition(in0, 1)
	})
}

// Once: a handler's error that wraps ErrNotOwner ends the lane in silence.
func TestHandlersErrorIsNotTakenForALoss(t *testing.T) {
	onBed(t, func(b *bed) {
		b.log.Produce("in", 0, "a=1")
		p := pipelineOf(t, func(in framework.Stream[wire]) framework.Stream[row] {
			return framework.MapErr(in, func(framework.Context, wire) (row, error) {
				return row{}, fmt.Errorf("ask the other pipeline: %w", framework.ErrNotOwner)
			})
		})
		stop := b.start(p)
		time.Sleep(time.Minute)
		var re *framework.RecordError
		if err := stop(); !errors.As(err, &re) {
			t.Errorf("Run returned %v, want a *RecordError", err)
		}
	})
}

// Once: a handler's error that wraps ErrOrder passed by its policy.
func TestHandlersErrorIsNotTakenForDisorder(t *testing.T) {
	onBed(t, func(b *bed) {
		b.log.Produce("in", 0, "a=1", "a=2")
		p := pipelineOf(t, func(in framework.Stream[wire]) framework.Stream[row] {
			return framework.MapErr(in, func(_ framework.Context, w wire) (row, error) {
				if w.v == "1" {
					return row{}, fmt.Errorf("events of one user: %w", framework.ErrOrder)
				}
				return row{Table: "t", Key: w.v}, nil
			})
		}, framework.OnHandlerFailure(framework.FailurePolicy{Action: framework.ActionDeadLetter}))
		b.mustRun(p)
		if n := len(b.lane(in0).DeadLetters); n != 1 {
			t.Errorf("%d dead letters, want 1", n)
		}
	})
}

// Once: BatchDelay below a second is not kept by a batch that began with records that were filtered.
func TestBatchDelayHoldsAfterFilteredRecords(t *testing.T) {
	onBed(t, func(b *bed) {
		b.cfg.BatchDelay = 50 * time.Millisecond
		p := pipelineOf(t, func(in framework.Stream[wire]) framework.Stream[row] {
			slow := framework.Map(in, func(w wire) wire {
				if w.v == "1" {
					time.Sleep(10 * time.Millisecond)
				}
				return w
			})
			return copyOf(framework.Filter(slow, func(w wire) bool { return w.v == "1" }))
		})
		b.log.Produce("in", 0, "a=1")
		stop := b.start(p)
		time.Sleep(20 * time.Millisecond)
		b.wantPosition(in0, 1)
		b.log.Produce("in", 0, "a=0") // filtered: nothing to save for a second
		synctest.Wait()
		for range 90 {
			b.log.Produce("in", 0, "a=1")
		}
		time.Sleep(500 * time.Millisecond)
		if got := b.lane(in0).Position.Offset; got < 20 {
			t.Errorf("position %d after 500 ms, although BatchDelay is %s", got, b.cfg.BatchDelay)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

type panicking struct{ jsonInts }

type jsonInts struct{}

func (jsonInts) Append(dst []byte, v int) ([]byte, error) { return fmt.Appendf(dst, "%d", v), nil }
func (panicking) Decode([]byte, *int) error               { panic("state codec") }

// Once: a state codec that panics while loading takes the process with it.
func TestStateCodecPanicIsRecovered(t *testing.T) {
	onBed(t, func(b *bed) {
		p := pipelineOf(t, func(in framework.Stream[wire]) framework.Stream[row] {
			pairs := framework.Map(in, func(w wire) keyed { return keyed{w.k, 1} })
			sums := framework.ReduceByKey("sum", pairs, func(a, b int) int { return a + b }, framework.StateCodec[string, int](panicking{}))
			return framework.Map(sums, func(k keyed) row { return row{Table: "sum", Key: k.Key, Value: k.Value} })
		})
		b.log.Produce("in", 0, "a=1")
		b.mustRun(p)
		b.log.Produce("in", 0, "a=1")
		wantError(t, b.run(p), framework.ErrPanic)
	})
}

// Once: BufferBytes is no bound: each lane computes a batch of BatchBytes whatever its share.
func TestBufferBytesBoundsAllPartitions(t *testing.T) {
	onBed(t, func(b *bed) {
		b.cfg.BufferBytes = 256 << 10
		var mu sync.Mutex
		made := 0
		p := pipelineOf(t, func(in framework.Stream[wire]) framework.Stream[row] {
			return framework.Map(copyOf(in), func(r row) row {
				mu.Lock()
				made += len(r.Value.(string))
				mu.Unlock()
				return r
			})
		})
		held := make(chan struct{})
		b.opts.Hooks.BeforeSave = func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[row]) error {
			<-held
			return nil
		}
		for part := range int32(8) {
			b.log.Produce("in", part, "a=1")
		}
		stop := b.start(p) // a small save of each lane is in flight
		v := "a=" + strings.Repeat("x", 1000)
		for range 2000 {
			for part := range int32(8) {
				b.log.Produce("in", part, v)
			}
		}
		time.Sleep(time.Minute)
		mu.Lock()
		t.Logf("%d bytes of unsaved writes, bound %d", made, b.cfg.BufferBytes)
		if made > 4*b.cfg.BufferBytes {
			t.Errorf("%d bytes of unsaved writes, bound %d", made, b.cfg.BufferBytes)
		}
		mu.Unlock()
		close(held)
		stop()
	})
}

// Once: pairs of a hot key are counted as one key, whatever they hold.
func TestPairsOfAHotKeyAreBounded(t *testing.T) {
	onBed(t, func(b *bed) {
		b.cfg.BufferBytes = 256 << 10
		n := 0
		p := pipelineOf(t, func(in framework.Stream[wire]) framework.Stream[row] {
			pairs := framework.Map(in, func(w wire) framework.Keyed[string, string] {
				n += len(w.v)
				return framework.Keyed[string, string]{Key: w.k, Value: w.v}
			})
			last := framework.ReduceByKey("last", pairs, func(_, v string) string { return v })
			return framework.Map(last, func(k framework.Keyed[string, string]) row {
				return row{Table: "last", Key: k.Key, Value: k.Value}
			})
		})
		held := make(chan struct{})
		b.opts.Hooks.BeforeSave = func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[row]) error {
			<-held
			return nil
		}
		v := "a=" + strings.Repeat("x", 10_000)
		for range 5000 {
			b.log.Produce("in", 0, v)
		}
		stop := b.start(p)
		time.Sleep(time.Minute)
		if n > 8*b.cfg.BufferBytes {
			t.Errorf("%d bytes of values wait in a batch, bound %d", n, b.cfg.BufferBytes)
		}
		close(held)
		stop()
	})
}

// Once: lanes are cut one after the other at the drain timeout.
func TestDrainTimeoutCutsAllLanesAtOnce(t *testing.T) {
	onBed(t, func(b *bed) {
		b.cfg.DrainTimeout = time.Second
		b.opts.Hooks.BeforeSave = func(ctx context.Context, _ string, _ offsetstore.TopicPartition, _ *framework.Batch[row]) error {
			<-ctx.Done()
			time.Sleep(10 * time.Second) // asks what became of it
			return &framework.SaveError{Outcome: framework.NotSaved, Err: ctx.Err()}
		}
		for part := range int32(10) {
			b.log.Produce("in", part, "a=1")
		}
		stop := b.start(pipelineOf(t, copyOf))
		time.Sleep(time.Second)
		began := time.Now()
		wantError(t, stop(), framework.ErrDrainTimeout)
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("the stop took %s", took)
		}
	})
}

// Once: a revoke waits for another partition's first question to the sink.
func TestRevokeDoesNotWaitForAnotherLanesTopic(t *testing.T) {
	log := frameworktest.NewLog()
	log.Create("in", 2)
	asked := make(chan struct{}, 1)
	hooks := memory.Hooks[row]{BeforeTopic: func(ctx context.Context, _, _ string) error {
		asked <- struct{}{}
		<-ctx.Done() // a sink that does not answer
		return ctx.Err()
	}}
	source := frameworktest.NewSource(log, in0)
	r, err := framework.NewRunner(pipelineOf(t, copyOf), source, memory.NewStore[row]().Open(memory.Options[row]{Hooks: hooks}), framework.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	<-asked
	source.Assign(in1)
	time.Sleep(50 * time.Millisecond) // in1 waits behind in0
	began := time.Now()
	revoke, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	source.Revoke(revoke, in1)
	if took := time.Since(began); took > time.Second {
		t.Errorf("Revoked took %s although the partition has nothing in flight", took)
	}
	cancel()
	stop()
	<-ended
}

// Once: a load that fails while draining: unsaved work, Run returns nil.
func TestLoadFailureWhileDrainingIsReported(t *testing.T) {
	onBed(t, func(b *bed) {
		broken := errors.New("disk on fire")
		held := make(chan struct{})
		n := 0
		b.opts.Hooks.BeforeSave = func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[row]) error {
			<-held
			return nil
		}
		b.opts.Hooks.BeforeLoad = func(context.Context, string, offsetstore.TopicPartition, []framework.StateKey) error {
			if n++; n > 1 {
				return broken
			}
			return nil
		}
		b.log.Produce("in", 0, "a=1")
		stop := b.start(pipelineOf(t, sumOf))
		b.log.Produce("in", 0, "b=1")
		synctest.Wait()
		go func() { time.Sleep(time.Second); close(held) }()
		err := stop()
		if p := b.lane(in0).Position.Offset; p != 2 && err == nil {
			t.Errorf("Run returned nil, position %d of 2", p)
		}
	})
}

// Once: the drain timeout does not bound a revoke under way.
func TestDrainTimeoutCutsARevoke(t *testing.T) {
	onBed(t, func(b *bed) {
		b.cfg.DrainTimeout = time.Second
		b.opts.Hooks.BeforeSave = func(ctx context.Context, _ string, _ offsetstore.TopicPartition, _ *framework.Batch[row]) error {
			<-ctx.Done()
			return &framework.SaveError{Outcome: framework.NotSaved, Err: ctx.Err()}
		}
		b.log.Produce("in", 0, "a=1")
		stop := b.start(pipelineOf(t, copyOf))
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		go b.source.Revoke(ctx, in0)
		synctest.Wait()
		began := time.Now()
		err := stop()
		if took := time.Since(began); took > time.Minute || !errors.Is(err, framework.ErrDrainTimeout) {
			t.Errorf("the stop took %s, and returned %v", took, err)
		}
	})
}

func TestDrainTimeoutShowsBesideAnError(t *testing.T) {
	onBed(t, func(b *bed) {
		b.cfg.DrainTimeout = time.Second
		b.opts.Hooks.BeforeSave = func(ctx context.Context, _ string, _ offsetstore.TopicPartition, _ *framework.Batch[row]) error {
			<-ctx.Done()
			return &framework.SaveError{Outcome: framework.NotSaved, Err: ctx.Err()}
		}
		b.log.Create("in", 2)
		b.log.Produce("in", 1, "a=1")
		stop := b.start(pipelineOf(t, copyOf)) // the save is in flight
		b.log.Produce("in", 0, "bad")
		time.Sleep(time.Minute)
		err := stop()
		wantError(t, err, framework.ErrDrainTimeout)
		var re *framework.RecordError
		if !errors.As(err, &re) {
			t.Errorf("error %v does not say what failed first", err)
		}
	})
}

func TestClaimThatPanicsFailsTheLane(t *testing.T) {
	onBed(t, func(b *bed) {
		b.log.Produce("in", 0, "a=1")
		b.opts.Hooks.BeforeClaim = func(context.Context, string, offsetstore.TopicPartition) error { panic("driver") }
		wantError(t, b.run(pipelineOf(t, copyOf)), framework.ErrPanic, "in/0")
	})
}

func TestRetriesDoNotKeepEarlierRecordsUnsaved(t *testing.T) {
	onBed(t, func(b *bed) {
		held := make(chan struct{})
		first := true
		b.opts.Hooks.BeforeSave = func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[row]) error {
			if first {
				first = false
				<-held
			}
			return nil
		}
		b.log.Produce("in", 0, "a=1")
		stop := b.start(pipelineOf(t, copyAndSum, framework.OnDecodeFailure(framework.FailurePolicy{Retries: 1000})))
		b.log.Produce("in", 0, "a=2", "bad")
		synctest.Wait() // one record is being saved, one processed, one retried
		close(held)
		time.Sleep(time.Hour)
		b.wantPosition(in0, 2)
		b.wantTotals(map[string]int{"a": 3})
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestBatchLimitSettlesBelowWhatWasTooLarge(t *testing.T) {
	onBed(t, func(b *bed) {
		refused, saved, small := 0, 0, tooLargeFor(600)
		b.opts.Hooks.BeforeSave = func(ctx context.Context, p string, tp offsetstore.TopicPartition, batch *framework.Batch[row]) error {
			time.Sleep(time.Millisecond)
			err := small(ctx, p, tp, batch)
			if err != nil {
				refused++
			} else {
				saved++
			}
			return err
		}
		for range 50_000 {
			b.log.Produce("in", 0, "a=1")
		}
		b.mustRun(pipelineOf(t, copyOf))
		if refused > 20 {
			t.Errorf("%d of %d saves were too large", refused, saved+refused)
		}
	})
}

func TestSkippingKeepsTheTopicID(t *testing.T) {
	onBed(t, func(b *bed) {
		p := pipelineOf(t, copyOf)
		b.log.Produce("in", 0, "a=1")
		b.mustRun(p)
		b.log.Recreate("in", 1)
		b.log.Produce("in", 0, "a=1", "a=2", "a=3", "a=4")
		// An operator accepts the new topic: the position is set to its beginning.
		other, err := framework.NewPipeline("other", copyOf(framework.From(wires{})))
		if err != nil {
			t.Fatal(err)
		}
		b.mustRun(other)
		now, _ := b.store.Position("other", in0)
		c, err := b.store.Open(b.opts).Claim(b.t.Context(), "test", in0, offsetstore.At(0))
		if err != nil {
			t.Fatal(err)
		}
		to := c.Progress()
		to.Position.Offset, to.Position.TopicID = 0, now.TopicID
		if err := c.Save(b.t.Context(), &framework.Batch[row]{From: c.Progress(), To: to}); err != nil {
			t.Fatal(err)
		}
		b.log.Retain("in", 0, 2)
		b.cfg.BelowLogStart = framework.PositionEarliest
		b.mustRun(p)
	})
}

func TestTinyBufferStillWorks(t *testing.T) {
	onBed(t, func(b *bed) {
		b.cfg.BufferBytes = 4
		b.log.Produce("in", 0, "a=0", "a=1", "a=2")
		stop := b.start(pipelineOf(t, copyAndSum))
		time.Sleep(time.Minute)
		b.wantPosition(in0, 3)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// Retention passes a partition while it is paused.
func TestLogThatShrinksBelowAPausedLane(t *testing.T) {
	onBed(t, func(b *bed) {
		b.cfg.BufferBytes = 64 // one hand-over fills the lane
		held := make(chan struct{})
		b.opts.Hooks.BeforeSave = func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[row]) error {
			<-held
			return nil
		}
		b.log.Produce("in", 0, "a=0", "a=1", "a=2")
		stop := b.start(pipelineOf(t, copyOf))
		b.log.Produce("in", 0, "a=3", "a=4", "a=5", "a=6", "a=7", "a=8", "a=9")
		synctest.Wait()
		if !b.source.Paused(in0) {
			t.Fatal("not paused")
		}
		b.log.Retain("in", 0, 8)
		close(held)
		time.Sleep(time.Minute)
		wantError(t, stop(), framework.ErrBelowLogStart)
		b.wantPosition(in0, 3)
	})
}

// A source whose errors contradict themselves must not move the position back.
func TestPositionIsNeverSkippedBackwards(t *testing.T) {
	onBed(t, func(b *bed) {
		b.cfg.BelowLogStart = framework.PositionEarliest
		b.cfg.RecoverWithin = time.Minute
		b.log.Produce("in", 0, "a=0", "a=1")
		p := pipelineOf(t, copyOf)
		b.mustRun(p)
		r, err := framework.NewRunner(p, liar{b.source}, b.store.Open(b.opts), b.cfg)
		if err != nil {
			t.Fatal(err)
		}
		wantError(t, r.Run(b.t.Context()), framework.ErrBelowLogStart)
		b.wantPosition(in0, 2)
	})
}

// liar is a source that says of a good position that it lies before the log's
// start, which it does not know.
type liar struct{ framework.Source }

func (liar) Run(ctx context.Context, lanes framework.Lanes) error {
	lanes.Assigned([]framework.Partition{&lyingPartition{}})
	<-ctx.Done()
	return nil
}

type lyingPartition struct{ framework.Partition }

func (*lyingPartition) TopicPartition() offsetstore.TopicPartition { return in0 }
func (*lyingPartition) Pause()                                     {}
func (*lyingPartition) Resolve(context.Context, offsetstore.StartRules) (framework.TopicStart, error) {
	return framework.TopicStart{Starts: map[int32]int64{0: 0}}, nil
}

func (*lyingPartition) Start(_ context.Context, from offsetstore.Position) error {
	return &framework.PositionError{TopicPartition: in0, Position: from, Err: framework.ErrBelowLogStart}
}

// A total that the sink could never store is traced to the record that made it,
// and what came before that record is saved.
func TestFailureBehindAReduceIsTracedToItsRecord(t *testing.T) {
	onBed(t, func(b *bed) {
		long := strings.Repeat("k", 5000)
		b.opts.Check = func(r row) (int, error) {
			if len(r.Key) > 1000 {
				return 0, errors.New("key too long")
			}
			return len(r.Key), nil
		}
		for range 300 {
			b.log.Produce("in", 0, "a=1")
		}
		b.log.Produce("in", 0, long+"=1", "a=1")
		err := b.run(pipelineOf(t, sumOf))
		var re *framework.RecordError
		if !errors.As(err, &re) || re.Offset != 300 || re.Stage != "output" {
			t.Fatalf("error %v, want a *RecordError of output at @300", err)
		}
		if len(err.Error()) > 1000 {
			t.Errorf("the error has %d bytes; the key is not shortened", len(err.Error()))
		}
		b.wantPosition(in0, 300)
		b.wantTotals(map[string]int{"a": 300})
	})
}

// A write that passes the check but is refused by the store is traced too, and
// treated as the policy says.
func TestRefusedWriteIsTracedToItsRecord(t *testing.T) {
	for _, action := range []framework.Action{framework.ActionStop, framework.ActionDeadLetter} {
		t.Run(action.String(), func(t *testing.T) {
			onBed(t, func(b *bed) {
				b.opts.Hooks.BeforeSave = func(_ context.Context, _ string, _ offsetstore.TopicPartition, batch *framework.Batch[row]) error {
					for _, w := range batch.Writes {
						if w.Value == "a=bad" {
							return &framework.SaveError{Outcome: framework.NotSaved, Err: fmt.Errorf("%w: duplicate key", framework.ErrRefused)}
						}
					}
					return nil
				}
				for i := range 100 {
					v := "a=1"
					if i == 70 {
						v = "a=bad"
					}
					b.log.Produce("in", 0, v)
				}
				err := b.run(pipelineOf(t, copyOf, framework.OnOutputFailure(framework.FailurePolicy{Action: action})))
				if action == framework.ActionStop {
					wantError(t, err, framework.ErrRefused, "in/0@70", "duplicate key")
					b.wantPosition(in0, 70)
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if d := b.lane(in0).DeadLetters; len(d) != 1 || d[0].Offset != 70 || !strings.Contains(d[0].Error, "duplicate key") {
					t.Errorf("dead letters %+v", d)
				}
				b.wantPosition(in0, 100)
				b.wantOnce()
			})
		})
	}
}

func TestOnePipelineRunsOnceOnASink(t *testing.T) {
	onBed(t, func(b *bed) {
		p, sink := pipelineOf(t, copyOf), b.store.Open(b.opts)
		runner := func() *framework.Runner {
			r, err := framework.NewRunner(p, frameworktest.NewSource(b.log), sink, b.cfg)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		ctx, cancel := context.WithCancel(b.t.Context())
		first := make(chan error, 1)
		one := runner()
		go func() { first <- one.Run(ctx) }()
		synctest.Wait()
		wantError(t, runner().Run(b.t.Context()), framework.ErrDuplicatePipeline, `"test"`)
		cancel()
		if err := <-first; err != nil {
			t.Error(err)
		}
		cancelled, cancel := context.WithCancel(b.t.Context())
		cancel()
		if err := runner().Run(cancelled); err != nil {
			t.Errorf("after the first has ended: %v", err)
		}
	})
}

// The first save after a start fails for good: the position must not move.
func TestFirstSaveThatFailsLeavesTheStart(t *testing.T) {
	onBed(t, func(b *bed) {
		b.cfg.RecoverWithin = time.Second
		b.opts.Hooks.BeforeSave = func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[row]) error {
			return &framework.SaveError{Outcome: framework.NotSaved, Err: framework.ErrUnavailable}
		}
		b.log.Produce("in", 0, "a=1", "a=2")
		wantError(t, b.run(pipelineOf(t, copyOf)), framework.ErrUnavailable)
		b.wantPosition(in0, 0)
		b.wantRows("copy")
	})
}

// A stop that comes while a batch fills loses and repeats nothing.
func TestStopAtAnyMomentLeavesRowsAndPositionAlike(t *testing.T) {
	for wait := range 12 {
		onBed(t, func(b *bed) {
			b.cfg.BatchRecords = 2
			b.opts.Hooks.BeforeSave = func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[row]) error {
				time.Sleep(2 * time.Millisecond)
				return nil
			}
			p := pipelineOf(t, func(in framework.Stream[wire]) framework.Stream[row] {
				return copyOf(framework.Map(in, func(w wire) wire { time.Sleep(time.Millisecond); return w }))
			})
			b.log.Produce("in", 0, "a=1", "a=2", "a=3", "a=4")
			stop := b.start(p)
			time.Sleep(time.Duration(wait) * time.Millisecond)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if l := b.lane(in0); l.Position.Offset != int64(l.Count) {
				t.Errorf("stopped after %d ms: position %d, %d rows", wait, l.Position.Offset, l.Count)
			}
			b.mustRun(p)
			b.wantPosition(in0, 4)
			b.wantOnce()
		})
	}
}
