package framework_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/memory"
)

// The next batch must see the totals of the one that is still being saved,
// which the store does not have yet.
func TestTotalsOfASaveInFlightAreNotReadStale(t *testing.T) {
	onBed(t, func(b *bed) {
		b.cfg.BatchRecords = 3
		b.opts.Hooks.BeforeSave = func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[row]) error {
			time.Sleep(time.Second)
			return nil
		}
		for range 20 {
			b.log.Produce("in", 0, "a=1", "b=2")
		}
		b.mustRun(pipelineOf(t, copyAndSum))
		b.wantTotals(map[string]int{"a": 20, "b": 40})
	})
}

func TestStateLargerThanTheCacheIsLoadedAgain(t *testing.T) {
	onBed(t, func(b *bed) {
		b.cfg.BatchRecords = 10
		loads := 0
		b.opts.Hooks.BeforeLoad = func(_ context.Context, _ string, _ offsetstore.TopicPartition, keys []framework.StateKey) error {
			loads += len(keys)
			return nil
		}
		want := map[string]int{}
		for i := range 1000 {
			k := "k" + strconv.Itoa(i%50)
			b.log.Produce("in", 0, k+"=1")
			want[k]++
		}
		b.mustRun(pipelineOf(t, func(in framework.Stream[wire]) framework.Stream[row] {
			return smallCacheSum(in, 5)
		}))
		b.wantTotals(want)
		if loads < 500 {
			t.Errorf("%d keys were loaded: the cache of 5 keys is not bounded", loads)
		}
	})
}

func smallCacheSum(in framework.Stream[wire], keys int) framework.Stream[row] {
	pairs := framework.Map(in, func(w wire) keyed { n, _ := strconv.Atoi(w.v); return keyed{Key: w.k, Value: n} })
	totals := framework.ReduceByKey("sum", pairs, func(a, b int) int { return a + b }, framework.CacheKeys[string, int](keys))
	return framework.Map(totals, func(k keyed) row { return row{Table: "sum", Key: k.Key + " ", Value: k.Value} })
}

func TestFailedLoadIsTriedAgain(t *testing.T) {
	onBed(t, func(b *bed) {
		fail := 3
		b.opts.Hooks.BeforeLoad = func(context.Context, string, offsetstore.TopicPartition, []framework.StateKey) error {
			if fail--; fail >= 0 {
				return framework.ErrUnavailable
			}
			return nil
		}
		b.log.Produce("in", 0, "a=1", "a=2")
		b.mustRun(pipelineOf(t, copyAndSum))
		b.wantTotals(map[string]int{"a": 3})
		b.wantOnce()
	})
}

func TestDamagedStateStopsTheLane(t *testing.T) {
	onBed(t, func(b *bed) {
		claim, err := b.store.Open(b.opts).Claim(b.t.Context(), "test", in0, offsetstore.At(0))
		if err != nil {
			t.Fatal(err)
		}
		entry := framework.StateEntry{StateKey: framework.StateKey{Operator: "sum", Key: []byte(`"a"`)}, Value: []byte("{")}
		if err := claim.Save(b.t.Context(), &framework.Batch[row]{From: claim.Progress(), To: claim.Progress(), State: []framework.StateEntry{entry}}); err != nil {
			t.Fatal(err)
		}
		b.log.Produce("in", 0, "a=1")
		wantError(t, b.run(pipelineOf(t, sumOf)), framework.ErrCorrupt, "reduce sum", "in/0", "key a")
		b.wantPosition(in0, 0)
	})
}

func TestFailureAfterAReduceStopsTheLane(t *testing.T) {
	onBed(t, func(b *bed) {
		b.log.Produce("in", 0, "a=1")
		boom := errors.New("no such row")
		err := b.run(pipelineOf(t, func(in framework.Stream[wire]) framework.Stream[row] {
			return framework.MapErr(sumOf(in), func(framework.Context, row) (row, error) { return row{}, boom }, framework.Named("store"))
		}, framework.OnHandlerFailure(framework.FailurePolicy{Action: framework.ActionSkip, Retries: 2})))
		wantError(t, err, boom, "map store", "in/0@0", "3 attempts")
		b.wantPosition(in0, 0)
	})
}

// aliased is a key of which different values encode alike.
type aliased struct {
	id   int64
	note string
}

type aliasedKeys struct{}

func (aliasedKeys) Append(dst []byte, k aliased) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, uint64(k.id)), nil
}

func (aliasedKeys) Decode(data []byte, k *aliased) error {
	k.id = int64(binary.BigEndian.Uint64(data))
	return nil
}

func TestKeysAreOneWhenTheyEncodeAlike(t *testing.T) {
	onBed(t, func(b *bed) {
		b.log.Produce("in", 0, "x=1", "y=1", "x=1")
		b.mustRun(pipelineOf(t, func(in framework.Stream[wire]) framework.Stream[row] {
			pairs := framework.Map(in, func(w wire) framework.Keyed[aliased, int] {
				return framework.Keyed[aliased, int]{Key: aliased{1, w.k}, Value: 1}
			})
			n := framework.ReduceByKey("n", pairs, func(a, b int) int { return a + b }, framework.KeyCodec[aliased, int](aliasedKeys{}))
			return framework.Map(n, func(k framework.Keyed[aliased, int]) row {
				return row{Table: "sum", Key: fmt.Sprint(k.Key.id, " "), Value: k.Value}
			})
		}))
		b.wantTotals(map[string]int{"1": 3})
	})
}

func TestKeyThatCannotBeEncodedIsBlamedOnItsRecord(t *testing.T) {
	onBed(t, func(b *bed) {
		b.log.Produce("in", 0, "a=1", "nan=1", "a=1")
		b.mustRun(pipelineOf(t, func(in framework.Stream[wire]) framework.Stream[row] {
			pairs := framework.Map(in, func(w wire) framework.Keyed[float64, int] {
				if w.k == "nan" {
					return framework.Keyed[float64, int]{Key: math.NaN(), Value: 1}
				}
				return framework.Keyed[float64, int]{Key: 1.5, Value: 1}
			})
			n := framework.ReduceByKey("n", pairs, func(a, b int) int { return a + b })
			return framework.Map(n, func(k framework.Keyed[float64, int]) row {
				return row{Table: "sum", Key: fmt.Sprint(k.Key, " "), Value: k.Value}
			})
		}, framework.OnHandlerFailure(framework.FailurePolicy{Action: framework.ActionDeadLetter})))
		b.wantTotals(map[string]int{"1.5": 2})
		if d := b.lane(in0).DeadLetters; len(d) != 1 || d[0].Offset != 1 || d[0].Stage != "reduce n" {
			t.Errorf("dead letters %+v", d)
		}
	})
}

// Keys that the default encoding cannot tell apart must not share a total.
func TestKeyThatJSONDoesNotGiveBackIsBlamedOnItsRecord(t *testing.T) {
	onBed(t, func(b *bed) {
		b.log.Produce("in", 0, "\xff=1", "\xfe=1", "a=1")
		b.mustRun(pipelineOf(t, sumOf, framework.OnHandlerFailure(framework.FailurePolicy{Action: framework.ActionDeadLetter})))
		b.wantTotals(map[string]int{"a": 1})
		if d := b.lane(in0).DeadLetters; len(d) != 2 || d[0].Stage != "reduce sum" {
			t.Errorf("dead letters %+v, want two of reduce sum", d)
		}
	})
}

// emptyWhenZero encodes 0 as nothing at all.
type emptyWhenZero struct{}

func (emptyWhenZero) Append(dst []byte, n int) ([]byte, error) {
	if n == 0 {
		return dst, nil
	}
	return strconv.AppendInt(dst, int64(n), 10), nil
}

func (emptyWhenZero) Decode(data []byte, n *int) (err error) {
	if len(data) > 0 {
		*n, err = strconv.Atoi(string(data))
	}
	return err
}

func TestTotalThatEncodesToNothingIsStillStored(t *testing.T) {
	onBed(t, func(b *bed) {
		p := pipelineOf(t, func(in framework.Stream[wire]) framework.Stream[row] {
			pairs := framework.Map(in, func(w wire) keyed { n, _ := strconv.Atoi(w.v); return keyed{Key: w.k, Value: n} })
			first := framework.ReduceByKey("first", pairs, func(a, _ int) int { return a }, framework.StateCodec[string](emptyWhenZero{}))
			return framework.Map(first, func(k keyed) row { return row{Table: "sum", Key: k.Key + " ", Value: k.Value} })
		})
		b.log.Produce("in", 0, "a=0")
		b.mustRun(p)
		b.log.Produce("in", 0, "a=7")
		b.mustRun(p)
		b.wantTotals(map[string]int{"a": 0}) // the first value stays
	})
}

func TestSharedStreamRunsOncePerRecord(t *testing.T) {
	onBed(t, func(b *bed) {
		calls := 0
		b.log.Produce("in", 0, "a=1", "a=2")
		b.mustRun(pipelineOf(t, func(in framework.Stream[wire]) framework.Stream[row] {
			shared := framework.Map(in, func(w wire) wire { calls++; return w })
			return copyAndSum(shared)
		}))
		if calls != 2 {
			t.Errorf("the shared operator ran %d times for 2 records", calls)
		}
		b.wantTotals(map[string]int{"a": 3})
	})
}

func TestFlatMapEmitsAnyNumber(t *testing.T) {
	onBed(t, func(b *bed) {
		b.log.Produce("in", 0, "a=0", "b=1", "c=3")
		b.mustRun(pipelineOf(t, func(in framework.Stream[wire]) framework.Stream[row] {
			return framework.FlatMapErr(in, func(ctx framework.Context, w wire, emit func(row)) error {
				n, err := strconv.Atoi(w.v)
				for i := range n {
					emit(row{Table: "flat", Key: fmt.Sprint(w.k, i), Value: ctx.Record().Offset})
				}
				return err
			})
		}))
		b.wantRows("flat", "b0: 1", "c0: 2", "c1: 2", "c2: 2")
		if c := b.counters(in0); c != (framework.Counters{Read: 3, Passed: 2, Filtered: 1}) {
			t.Errorf("counters %+v", c)
		}
	})
}

func TestCountersSurviveEncoding(t *testing.T) {
	if _, err := framework.DecodeCounters([]byte{9, 1, 2}); !errors.Is(err, framework.ErrCorrupt) {
		t.Errorf("an unknown format gives %v, want ErrCorrupt", err)
	}
	if _, err := framework.DecodeCounters([]byte{1, 1, 2}); !errors.Is(err, framework.ErrCorrupt) {
		t.Errorf("data cut short gives %v, want ErrCorrupt", err)
	}
	if c, err := framework.DecodeCounters(nil); err != nil || c != (framework.Counters{}) {
		t.Errorf("nothing saved gives %+v, %v", c, err)
	}
}

func TestDamagedCountersStopTheLane(t *testing.T) {
	onBed(t, func(b *bed) {
		claim, err := b.store.Open(memory.Options[row]{}).Claim(b.t.Context(), "test", in0, offsetstore.At(0))
		if err != nil {
			t.Fatal(err)
		}
		to := framework.Progress{Position: offsetstore.At(0), Lane: []byte{77}}
		if err := claim.Save(b.t.Context(), &framework.Batch[row]{From: claim.Progress(), To: to}); err != nil {
			t.Fatal(err)
		}
		b.log.Produce("in", 0, "a=1")
		wantError(t, b.run(pipelineOf(t, copyOf)), framework.ErrCorrupt, "in/0")
	})
}
