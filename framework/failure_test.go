package framework_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/memory"
)

func TestUndecodableRecordStopsBeforeIt(t *testing.T) {
	onBed(t, func(b *bed) {
		p := pipelineOf(t, copyOf)
		b.log.Produce("in", 0, "a=1", "not-a-pair", "a=2")
		for range 2 { // starting again gives the same result, not progress
			err := b.run(p)
			var re *framework.RecordError
			if !errors.As(err, &re) || re.Stage != "decode" || re.Offset != 1 || re.TopicPartition != in0 || re.Pipeline != "test" {
				t.Fatalf("error %v, want a *RecordError of decode at in/0@1", err)
			}
			wantError(t, err, re, `"test"`, "in/0@1", "decode", "not-a-pair")
			b.wantPosition(in0, 1)
			b.wantRows("copy", "in/0@0: a=1")
		}
	})
}

func TestDeadLettersAreSavedWithThePosition(t *testing.T) {
	onBed(t, func(b *bed) {
		p := pipelineOf(t, copyAndSum,
			framework.OnDecodeFailure(framework.FailurePolicy{Action: framework.ActionDeadLetter}),
			framework.OnHandlerFailure(framework.FailurePolicy{Action: framework.ActionDeadLetter}))
		b.log.Produce("in", 0, "a=1", "not-a-pair", "a=x", "", "a=4")
		b.log.Append("in", 0, framework.Record{
			Offset: -1, Key: []byte("k"), Value: []byte("zz"), Timestamp: time.UnixMilli(5),
			Headers: []framework.Header{{Key: "h", Value: []byte("v")}},
		})
		b.mustRun(p)
		b.wantPosition(in0, 6)
		b.wantTotals(map[string]int{"a": 5})
		b.wantRows("copy", "in/0@0: a=1", "in/0@4: a=4") // not @2: it failed in a later branch
		dead := b.lane(in0).DeadLetters
		var got []string
		for _, d := range dead {
			got = append(got, fmt.Sprintf("%d %s %q", d.Offset, d.Stage, d.Value))
		}
		want := `[1 decode "not-a-pair" 2 map to-int "a=x" 3 decode "" 5 decode "zz"]`
		if fmt.Sprint(got) != want {
			t.Errorf("dead letters %v, want %v", got, want)
		}
		last := dead[len(dead)-1]
		if string(last.Key) != "k" || len(last.Headers) != 1 || !last.Timestamp.Equal(time.UnixMilli(5)) || !strings.Contains(last.Error, "zz") || last.Attempts != 1 {
			t.Errorf("dead letter is not whole: %+v", last)
		}
		if c := b.counters(in0); c != (framework.Counters{Read: 6, Passed: 2, DeadLettered: 4}) {
			t.Errorf("counters %+v", c)
		}
	})
}

func TestThousandBadRecordsInARow(t *testing.T) {
	onBed(t, func(b *bed) {
		for range 1000 {
			b.log.Produce("in", 0, "bad")
		}
		b.log.Produce("in", 0, "a=1")
		b.mustRun(pipelineOf(t, copyOf, framework.OnDecodeFailure(framework.FailurePolicy{Action: framework.ActionSkip})))
		if c := b.counters(in0); c.Skipped != 1000 || c.Passed != 1 || c.Read != 1001 {
			t.Errorf("counters %+v", c)
		}
	})
}

func TestThousandDeadLettersInARow(t *testing.T) {
	onBed(t, func(b *bed) {
		for range 1000 {
			b.log.Produce("in", 0, "bad")
		}
		b.log.Produce("in", 0, "a=1")
		b.mustRun(pipelineOf(t, copyOf, framework.OnDecodeFailure(framework.FailurePolicy{Action: framework.ActionDeadLetter})))
		if c := b.counters(in0); c.DeadLettered != 1000 || c.Passed != 1 || c.Read != 1001 {
			t.Errorf("counters %+v", c)
		}
		for i, d := range b.lane(in0).DeadLetters {
			if d.Offset != int64(i) {
				t.Fatalf("dead letter %d is of offset %d", i, d.Offset)
			}
		}
	})
}

func TestPanicThatHappensOnceIsRetried(t *testing.T) {
	for name, boom := range panics {
		t.Run(name, func(t *testing.T) {
			onBed(t, func(b *bed) {
				tripped := false
				shape := func(in framework.Stream[wire]) framework.Stream[row] {
					return copyAndSum(framework.Map(in, func(w wire) wire {
						if w.v == "2" && !tripped {
							tripped = true
							boom()
						}
						return w
					}))
				}
				b.log.Produce("in", 0, "a=1", "a=2", "a=3")
				b.mustRun(pipelineOf(t, shape, framework.OnHandlerFailure(framework.FailurePolicy{Action: framework.ActionDeadLetter, Retries: 1})))
				b.wantTotals(map[string]int{"a": 6})
				b.wantOnce()
				if n := len(b.lane(in0).DeadLetters); n != 0 || !tripped {
					t.Errorf("%d dead letters, panicked: %t", n, tripped)
				}
			})
		})
	}
}

// Where dead letters have to be published, a sink around the real one publishes
// them before the save: none is ever passed by without.
func TestDeadLetterThatCannotBePublishedHoldsThePosition(t *testing.T) {
	deadLetters := framework.OnDecodeFailure(framework.FailurePolicy{Action: framework.ActionDeadLetter})
	onBed(t, func(b *bed) {
		p := pipelineOf(t, copyOf, deadLetters)
		working := time.Now().Add(10 * time.Second)
		published := map[int64]int{}
		b.opts.Hooks.BeforeSave = func(_ context.Context, _ string, _ offsetstore.TopicPartition, batch *framework.Batch[row]) error {
			for _, d := range batch.DeadLetters {
				if time.Now().Before(working) {
					return &framework.SaveError{Outcome: framework.NotSaved, Err: framework.ErrUnavailable}
				}
				published[d.Offset]++
			}
			return nil
		}
		b.cfg.BatchRecords = 1
		b.log.Produce("in", 0, "a=0", "bad", "a=2")
		stop := b.start(p)
		time.Sleep(5 * time.Second)
		b.wantPosition(in0, 1)
		b.wantRows("copy", "in/0@0: a=0")
		b.settle()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		b.wantPosition(in0, 3)
		b.wantRows("copy", "in/0@0: a=0", "in/0@2: a=2")
		if n := len(b.lane(in0).DeadLetters); n != 1 || published[1] < 1 {
			t.Errorf("%d dead letters, published %v", n, published)
		}
	})
}

// A publisher that hangs longer than a stop may take: the record stays to be done.
func TestDeadLetterThatHangsInItsPublisherIsNotPassed(t *testing.T) {
	onBed(t, func(b *bed) {
		b.cfg.DrainTimeout = time.Second
		b.opts.Hooks.BeforeSave = func(ctx context.Context, _ string, _ offsetstore.TopicPartition, batch *framework.Batch[row]) error {
			if len(batch.DeadLetters) == 0 {
				return nil
			}
			<-ctx.Done()
			return &framework.SaveError{Outcome: framework.NotSaved, Err: ctx.Err()}
		}
		b.cfg.BatchRecords = 1
		b.log.Produce("in", 0, "a=0", "bad", "a=2")
		stop := b.start(pipelineOf(t, copyOf, framework.OnDecodeFailure(framework.FailurePolicy{Action: framework.ActionDeadLetter})))
		wantError(t, stop(), framework.ErrDrainTimeout)
		b.wantPosition(in0, 1)
		b.wantRows("copy", "in/0@0: a=0")
	})
}

// The last record of a key wins, whatever its value and timestamp say.
func TestWritesFollowTheOffsets(t *testing.T) {
	for _, size := range []int{1, 5} {
		onBed(t, func(b *bed) {
			b.cfg.BatchRecords = size
			var after []string
			b.cfg.Hooks.Saved = func(framework.SavedEvent) {
				after = append(after, fmt.Sprint(memory.Rows(b.store, "last")["k"]))
			}
			for _, v := range []string{"k=9", "k=1", "k=5", "k=", "k=7"} {
				b.log.Append("in", 0, framework.Record{Offset: -1, Timestamp: time.UnixMilli(1000), Value: []byte(v)})
			}
			b.mustRun(pipelineOf(t, func(in framework.Stream[wire]) framework.Stream[row] {
				return framework.Map(in, func(w wire) row { return row{Table: "last", Key: w.k, Value: w.v, Delete: w.v == ""} })
			}))
			want := "[9 1 5 <nil> 7]"
			if size > 1 {
				want = "[7]"
			}
			if got := fmt.Sprint(after); got != want {
				t.Errorf("batches of %d: %s, want %s", size, got, want)
			}
		})
	}
}

// panics are the ways in which a handler can go wrong.
var panics = map[string]func(){
	"value":   func() { panic("boom") },
	"index":   func() { var s []int; _ = s[len(panicsSize)] },
	"nil map": func() { var m map[string]int; m["x"] = 1 },
	"nil":     func() { panic(nil) },
}

var panicsSize = []int{1, 2, 3}

func TestPanicIsAFailureLikeAnError(t *testing.T) {
	for name, boom := range panics {
		for _, operator := range []string{"map", "filter", "flatMap", "decode", "reduce"} {
			for _, action := range []framework.Action{framework.ActionStop, framework.ActionDeadLetter} {
				if operator == "reduce" && action != framework.ActionStop {
					continue // not allowed there
				}
				t.Run(fmt.Sprint(name, " ", operator, " ", action), func(t *testing.T) { testPanic(t, boom, operator, action) })
			}
		}
	}
}

func testPanic(t *testing.T, boom func(), operator string, action framework.Action) {
	onBed(t, func(b *bed) {
		var at []time.Time
		trip := func(where string, w wire) {
			if where == operator && w.v == "-1" {
				at = append(at, time.Now())
				boom()
			}
		}
		p := panicPipeline(t, trip, action)
		b.cfg.BatchRecords = 1 // so that the reduction of @1 is not that of @0
		b.log.Produce("in", 0, "a=1", "a=-1", "a=2")
		for range 100 {
			b.log.Produce("in", 1, "b=1")
		}
		err := b.run(p)
		if len(at) != 3 {
			t.Fatalf("%d attempts, want 3", len(at))
		}
		for i := 1; i < 3; i++ {
			if d := at[i].Sub(at[i-1]); d < 100*time.Millisecond {
				t.Errorf("attempt %d came %s after the one before, want 100ms at least", i+1, d)
			}
		}
		if action == framework.ActionDeadLetter {
			if err != nil {
				t.Fatal(err)
			}
			b.wantPosition(in0, 3)
			if n := len(b.lane(in0).DeadLetters); n != 1 {
				t.Errorf("%d dead letters, want 1", n)
			}
			return
		}
		wantError(t, err, framework.ErrPanic, "in/0@1", "3 attempts")
		var pe *framework.PanicError
		if !errors.As(err, &pe) || !strings.Contains(string(pe.Stack), "failure_test.go") {
			t.Error("the error does not carry the stack of the panic")
		}
		b.wantPosition(in0, 1)
	})
}

func panicPipeline(t *testing.T, trip func(string, wire), action framework.Action) *framework.Pipeline[row] {
	t.Helper()
	events := framework.From(decoder(func(data []byte, w *wire) error {
		err := wires{}.Decode(data, w)
		trip("decode", *w)
		return err
	}))
	events = framework.Map(events, func(w wire) wire { trip("map", w); return w })
	events = framework.Filter(events, func(w wire) bool { trip("filter", w); return true })
	events = framework.FlatMap(events, func(w wire, emit func(wire)) { emit(w); trip("flatMap", w) })
	pairs := framework.Map(events, func(w wire) framework.Keyed[string, string] {
		return framework.Keyed[string, string]{Key: w.k, Value: w.v}
	})
	last := framework.ReduceByKey("last", pairs, func(_, v string) string { trip("reduce", wire{v: v}); return v })
	rows := framework.Map(last, func(k framework.Keyed[string, string]) row { return row{Table: "last", Key: k.Key, Value: k.Value} })
	policy := framework.FailurePolicy{Action: action, Retries: 2, Pause: 100 * time.Millisecond}
	p, err := framework.NewPipeline("test", framework.Merge(copyOf(events), rows),
		framework.OnDecodeFailure(policy), framework.OnHandlerFailure(policy))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

type decoder func([]byte, *wire) error

func (d decoder) Decode(data []byte, w *wire) error { return d(data, w) }

func TestRecordThatFailsOnceLeavesNoTrace(t *testing.T) {
	onBed(t, func(b *bed) {
		failures := 0
		shape := func(in framework.Stream[wire]) framework.Stream[row] {
			// The branches before the failing one have added rows and pairs by then.
			flaky := framework.MapErr(in, func(_ framework.Context, w wire) (row, error) {
				if w.v == "2" && failures < 2 {
					failures++
					return row{}, errors.New("not now")
				}
				return row{Table: "flaky", Key: w.k + w.v, Value: ""}, nil
			})
			return framework.Merge(copyAndSum(in), flaky)
		}
		policy := framework.FailurePolicy{Action: framework.ActionDeadLetter, Retries: 2}
		b.log.Produce("in", 0, "a=1", "a=2", "a=3")
		b.mustRun(pipelineOf(t, shape, framework.OnHandlerFailure(policy)))
		b.wantTotals(map[string]int{"a": 6})
		b.wantOnce()
		if n := len(b.lane(in0).DeadLetters); n != 0 || failures != 2 {
			t.Errorf("%d dead letters after %d failures", n, failures)
		}
	})
}

func TestGoexitInAHandlerFailsTheLane(t *testing.T) {
	onBed(t, func(b *bed) {
		shape := func(in framework.Stream[wire]) framework.Stream[row] {
			return framework.Map(copyOf(in), func(r row) row { runtime.Goexit(); return r })
		}
		b.log.Produce("in", 0, "a=1")
		err := b.run(pipelineOf(t, shape))
		if err == nil || !strings.Contains(err.Error(), "Goexit") {
			t.Errorf("error %v, want one that names Goexit", err)
		}
	})
}

func TestWriteTheSinkCouldNeverSaveIsBlamedOnItsRecord(t *testing.T) {
	onBed(t, func(b *bed) {
		b.opts.Check = func(r row) (int, error) {
			if r.Value == "a=big" {
				return 0, errors.New("value of 2 MiB, the limit is 1 MiB")
			}
			return 10, nil
		}
		b.log.Produce("in", 0, "a=1", "a=big", "a=3")
		err := b.run(pipelineOf(t, copyOf))
		var re *framework.RecordError
		if !errors.As(err, &re) || re.Stage != "output" || re.Offset != 1 {
			t.Fatalf("error %v, want a *RecordError of output at @1", err)
		}
		b.wantPosition(in0, 1)
		b.mustRun(pipelineOf(t, copyOf, framework.OnOutputFailure(framework.FailurePolicy{Action: framework.ActionDeadLetter})))
		b.wantRows("copy", "in/0@0: a=1", "in/0@2: a=3")
		b.wantPosition(in0, 3)
	})
}

// Records at fault one after another are each found once, and passed by.
func TestRecordsInARowThatTheSinkCouldNeverSave(t *testing.T) {
	for _, action := range []framework.Action{framework.ActionSkip, framework.ActionDeadLetter} {
		t.Run(fmt.Sprint(action), func(t *testing.T) {
			onBed(t, func(b *bed) {
				b.opts.Hooks.BeforeSave = tooLargeFor(7)
				claims := 0
				b.cfg.Hooks.Claimed = func(framework.ClaimedEvent) { claims++ }
				b.log.Produce("in", 0, "a=1", "a=huge", "a=huge", "a=huge", "a=2")
				b.mustRun(pipelineOf(t, copyOf, framework.OnOutputFailure(framework.FailurePolicy{Action: action})))
				b.wantRows("copy", "in/0@0: a=1", "in/0@4: a=2")
				b.wantPosition(in0, 5)
				if claims > 12 {
					t.Errorf("%d claims for three records at fault", claims)
				}
			})
		})
	}
}

// A batch too large for the sink is halved until it fits, or until one record
// is found that is too large by itself.
func TestBatchTooLargeIsHalvedDownToTheRecordAtFault(t *testing.T) {
	for _, poison := range []bool{false, true} {
		t.Run(fmt.Sprint("with poison ", poison), func(t *testing.T) {
			onBed(t, func(b *bed) {
				b.opts.Hooks.BeforeSave = tooLargeFor(7)
				for i := range 100 {
					v := "a=1"
					if poison && i == 50 {
						v = "a=huge"
					}
					b.log.Produce("in", 0, v)
					b.log.Produce("in", 0, "filtered=0")
				}
				shape := func(in framework.Stream[wire]) framework.Stream[row] {
					return copyOf(framework.Filter(in, func(w wire) bool { return w.k == "a" }))
				}
				b.mustRun(pipelineOf(t, shape, framework.OnOutputFailure(framework.FailurePolicy{Action: framework.ActionDeadLetter})))
				want := 100
				if poison {
					want--
				}
				if got := len(memory.Rows(b.store, "copy")); got != want {
					t.Errorf("%d rows, want %d", got, want)
				}
				b.wantOnce()
				if dead := b.lane(in0).DeadLetters; len(dead) != 100-want {
					t.Errorf("dead letters %v", dead)
				}
			})
		})
	}
}

func tooLargeFor(most int) func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[row]) error {
	return func(_ context.Context, _ string, _ offsetstore.TopicPartition, b *framework.Batch[row]) error {
		n := len(b.Writes)
		for _, w := range b.Writes {
			if w.Value == "a=huge" {
				n += most
			}
		}
		if n > most {
			return &framework.SaveError{Outcome: framework.NotSaved, Err: framework.ErrTooLarge}
		}
		return nil
	}
}

func TestFailedLaneDrainsTheOthers(t *testing.T) {
	onBed(t, func(b *bed) {
		b.log.Create("in", 2)
		stop := b.start(pipelineOf(t, copyOf)) // both are claimed
		for range 100 {
			b.log.Produce("in", 1, "b=1")
		}
		b.log.Produce("in", 0, "bad")
		time.Sleep(time.Minute)
		if err := stop(); err == nil {
			t.Fatal("no error")
		}
		if got := b.lane(in1); got.Position.Offset != int64(got.Count) {
			t.Errorf("position %d with %d rows", got.Position.Offset, got.Count)
		}
	})
}

func TestKeepOthersLetsTheRestGoOn(t *testing.T) {
	onBed(t, func(b *bed) {
		b.cfg.KeepOthers = true
		b.log.Produce("in", 0, "bad")
		b.log.Create("in", 2)
		stop := b.start(pipelineOf(t, copyOf))
		time.Sleep(time.Minute)
		b.log.Produce("in", 1, "b=1")
		time.Sleep(time.Minute)
		b.wantPosition(in1, 1)
		var re *framework.RecordError
		if err := stop(); !errors.As(err, &re) {
			t.Errorf("Run returned %v, want the failed partition's *RecordError", err)
		}
	})
}

func TestRetentionPastThePositionStopsUnlessAPolicySaysHowToGoOn(t *testing.T) {
	in3to10 := func(b *bed) {
		p := pipelineOf(b.t, copyOf)
		b.log.Produce("in", 0, "a=0", "a=1", "a=2")
		b.mustRun(p)
		b.log.Produce("in", 0, "a=3", "a=4", "a=5", "a=6", "a=7", "a=8", "a=9")
		b.log.Retain("in", 0, 8)
	}
	t.Run("stop", func(t *testing.T) {
		onBed(t, func(b *bed) {
			in3to10(b)
			b.cfg.Start.Default = offsetstore.Latest() // is not used for this
			err := b.run(pipelineOf(b.t, copyOf))
			wantError(t, err, framework.ErrBelowLogStart, "position 3", "8..10", "5 offsets", "in/0")
			b.wantPosition(in0, 3)
		})
	})
	t.Run("earliest", func(t *testing.T) {
		onBed(t, func(b *bed) {
			in3to10(b)
			b.cfg.BelowLogStart = framework.PositionEarliest
			b.mustRun(pipelineOf(b.t, copyOf))
			b.wantRows("copy", "in/0@0: a=0", "in/0@1: a=1", "in/0@2: a=2", "in/0@8: a=8", "in/0@9: a=9")
			b.wantPosition(in0, 10)
			if c := b.counters(in0); c.Lost != 5 || c.Read != 5 {
				t.Errorf("counters %+v, want 5 lost", c)
			}
		})
	})
	t.Run("latest", func(t *testing.T) {
		onBed(t, func(b *bed) {
			in3to10(b)
			b.cfg.BelowLogStart = framework.PositionLatest
			b.mustRun(pipelineOf(b.t, copyOf))
			b.wantPosition(in0, 10)
			if c := b.counters(in0); c.Lost != 7 || c.Read != 3 {
				t.Errorf("counters %+v, want 7 lost", c)
			}
		})
	})
}

func TestTruncatedAndRecreatedTopicsStopTheLane(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(b *bed)
		want   error
		texts  []string
	}{
		{"truncated", func(b *bed) { b.log.Truncate("in", 0, 2) }, framework.ErrAboveLogEnd, []string{"position 3", "0..2"}},
		{"recreated", func(b *bed) {
			b.log.Recreate("in", 1)
			b.log.Produce("in", 0, "n=0", "n=1", "n=2", "n=3")
		}, framework.ErrTopicRecreated, []string{"in/0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onBed(t, func(b *bed) {
				b.log.Produce("in", 0, "a=0", "a=1", "a=2")
				b.mustRun(pipelineOf(b.t, copyOf))
				c.damage(b)
				b.cfg.BelowLogStart = framework.PositionEarliest // not for these
				wantError(t, b.run(pipelineOf(b.t, copyOf)), c.want, c.texts...)
				b.wantPosition(in0, 3)
			})
		})
	}
}

func TestLogThatShrinksWhileRunning(t *testing.T) {
	onBed(t, func(b *bed) {
		b.cfg.BelowLogStart = framework.PositionEarliest
		held := make(chan struct{})
		first := true
		b.opts.Hooks.BeforeSave = func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[row]) error {
			if first {
				first = false
				<-held
			}
			return nil
		}
		b.log.Produce("in", 0, "a=0", "a=1", "a=2")
		stop := b.start(pipelineOf(t, copyOf))
		b.log.Produce("in", 0, "a=3", "a=4", "a=5", "a=6", "a=7", "a=8", "a=9")
		b.log.Retain("in", 0, 8)
		b.source.Fail(in0, &framework.PositionError{TopicPartition: in0, Position: offsetstore.At(3), LogStart: 8, LogEnd: 10, Err: framework.ErrBelowLogStart})
		synctest.Wait()
		close(held)
		time.Sleep(time.Minute)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		b.wantPosition(in0, 10)
		b.wantOnce()
		if c := b.counters(in0); c.Lost+c.Read != 10 {
			t.Errorf("counters %+v: every offset is to be read or lost", c)
		}
	})
}
