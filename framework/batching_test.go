package framework_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/frameworktest"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/memory"
)

func (b *bed) saves() *[]framework.SavedEvent {
	events := &[]framework.SavedEvent{}
	b.cfg.Hooks.Saved = func(e framework.SavedEvent) { *events = append(*events, e) }
	return events
}

func TestLoneRecordIsSavedAtOnce(t *testing.T) {
	onBed(t, func(b *bed) {
		b.log.Create("in", 1)
		stop := b.start(pipelineOf(t, copyOf))
		b.log.Produce("in", 0, "a=1")
		synctest.Wait() // no time passes
		b.wantPosition(in0, 1)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestBatchGrowsWhileTheOneBeforeIsBeingSaved(t *testing.T) {
	onBed(t, func(b *bed) {
		events := b.saves()
		b.opts.Hooks.BeforeSave = func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[row]) error {
			time.Sleep(time.Second)
			return nil
		}
		b.log.Create("in", 1)
		stop := b.start(pipelineOf(t, copyAndSum))
		for range 10 {
			b.log.Produce("in", 0, "a=1")
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if n := len(*events); n != 2 || (*events)[0].Records != 1 || (*events)[1].Records != 9 {
			t.Errorf("saves %+v, want one of 1 record and one of 9", *events)
		}
		b.wantTotals(map[string]int{"a": 10})
	})
}

// A source delivers a backlog in bursts. Between two of them the lane is idle,
// but not done.
func TestBatchGrowsOverBurstsOfABacklog(t *testing.T) {
	rec := func(offset int64) framework.Record { return framework.Record{Offset: offset, Value: []byte("a=1")} }
	for _, c := range []struct {
		name    string
		logEnd  int64
		batches int
	}{{"far behind", 100_000, 1}, {"near the end", 110, 10}, {"end unknown", -1, 10}} {
		t.Run(c.name, func(t *testing.T) {
			onBed(t, func(b *bed) {
				events := b.saves()
				b.log.Create("in", 1)
				stop := b.start(pipelineOf(t, copyOf))
				for offset := range int64(10) {
					b.source.DeliverOf(in0, c.logEnd, rec(offset))
					time.Sleep(20 * time.Millisecond)
				}
				time.Sleep(time.Second)
				b.wantPosition(in0, 10) // even if nothing more ever comes
				if err := stop(); err != nil {
					t.Error(err)
				}
				if len(*events) != c.batches {
					t.Errorf("%d batches, want %d", len(*events), c.batches)
				}
			})
		})
	}
}

func TestBatchClosesAtItsLimits(t *testing.T) {
	long := "a=" + strings.Repeat("x", 98)
	for _, c := range []struct {
		name string
		cfg  framework.Config
		most int
	}{
		{"records", framework.Config{BatchRecords: 7}, 7},
		{"bytes", framework.Config{BatchBytes: 1000}, 11},
	} {
		t.Run(c.name, func(t *testing.T) {
			onBed(t, func(b *bed) {
				b.cfg.BatchRecords, b.cfg.BatchBytes = c.cfg.BatchRecords, c.cfg.BatchBytes
				events := b.saves()
				for range 100 {
					b.log.Produce("in", 0, long)
				}
				b.mustRun(pipelineOf(t, copyOf))
				full := 0
				for _, e := range *events {
					if e.Records > c.most {
						t.Errorf("a batch of %d records, want at most %d", e.Records, c.most)
					}
					if e.Records >= c.most-3 {
						full++
					}
				}
				if full < 8 {
					t.Errorf("only %d batches were full", full)
				}
			})
		})
	}
}

func TestSlowHandlerDoesNotDelayASave(t *testing.T) {
	onBed(t, func(b *bed) {
		b.cfg.BatchDelay = time.Second
		events := b.saves()
		for range 100 {
			b.log.Produce("in", 0, "a=1")
		}
		shape := func(in framework.Stream[wire]) framework.Stream[row] {
			return framework.Map(copyOf(in), func(r row) row { time.Sleep(100 * time.Millisecond); return r })
		}
		b.mustRun(pipelineOf(t, shape))
		if n := len(*events); n < 8 || n > 12 {
			t.Errorf("%d saves in 10 s of work, want about one a second", n)
		}
	})
}

func TestBatchThatOnlyMovesThePositionIsSavedOnceASecond(t *testing.T) {
	onBed(t, func(b *bed) {
		events := b.saves()
		b.log.Create("in", 1)
		shape := func(in framework.Stream[wire]) framework.Stream[row] {
			return framework.Filter(copyOf(in), func(row) bool { return false })
		}
		stop := b.start(pipelineOf(t, shape))
		for range 100 {
			b.log.Produce("in", 0, "a=1")
			time.Sleep(100 * time.Millisecond)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if n := len(*events); n < 9 || n > 12 {
			t.Errorf("%d saves in 10 s, want about 10", n)
		}
		b.wantPosition(in0, 100)
		if c := b.counters(in0); c.Filtered != 100 {
			t.Errorf("counters %+v", c)
		}
	})
}

// Values that wait to be reduced take memory too: the more lanes, the less each
// may hold.
func TestBatchClosesWhenItsValuesTakeTooMuchMemory(t *testing.T) {
	onBed(t, func(b *bed) {
		b.cfg.BufferBytes = 64 << 10 // 16 KiB for one lane, twice that for what its batch keeps
		events := b.saves()
		for range 5000 {
			b.log.Produce("in", 0, "a=1")
		}
		b.mustRun(pipelineOf(t, sumOf))
		for _, e := range *events {
			if e.Records > 32768/16+1 {
				t.Errorf("a batch of %d records holds more than 32 KiB of values", e.Records)
			}
		}
		b.wantTotals(map[string]int{"a": 5000})
	})
}

// A batch keeps what its records brought along, headers included.
func TestBatchClosesWhenItsRecordsTakeTooMuchMemory(t *testing.T) {
	big := make([]byte, 4<<10)
	for name, record := range map[string]framework.Record{
		"key":     {Offset: -1, Value: []byte("a=1"), Key: big},
		"headers": {Offset: -1, Value: []byte("a=1"), Headers: []framework.Header{{Key: "trace", Value: big}}},
	} {
		t.Run(name, func(t *testing.T) {
			onBed(t, func(b *bed) {
				b.cfg.BufferBytes = 128 << 10 // 32 KiB for one lane, twice that for what its batch keeps
				events := b.saves()
				for range 200 {
					b.log.Append("in", 0, record)
				}
				b.mustRun(pipelineOf(t, sumOf))
				for _, e := range *events {
					if e.Records > 64/4+1 {
						t.Errorf("a batch of %d records holds more than 64 KiB of them", e.Records)
					}
				}
				b.wantTotals(map[string]int{"a": 200})
			})
		})
	}
}

// A sink that stands still must not let memory grow, nor hold up others.
func TestSlowSinkPausesItsPartitionAndOnlyThat(t *testing.T) {
	onBed(t, func(b *bed) {
		b.cfg.BufferBytes = 64 << 10
		b.cfg.BatchBytes = 4 << 10
		held := make(chan struct{})
		b.opts.Hooks.BeforeSave = func(_ context.Context, _ string, tp offsetstore.TopicPartition, _ *framework.Batch[row]) error {
			if tp == in0 {
				<-held
			}
			return nil
		}
		value := "a=" + strings.Repeat("x", 1000)
		for range 10_000 {
			b.log.Append("in", 0, framework.Record{Offset: -1, Value: []byte(value)})
			b.log.Append("in", 1, framework.Record{Offset: -1, Value: []byte(value)})
		}
		stop := b.start(pipelineOf(t, copyOf))
		time.Sleep(time.Minute)
		if !b.source.Paused(in0) {
			t.Error("the partition of the slow sink is not paused")
		}
		b.wantPosition(in1, 10_000)
		close(held)
		time.Sleep(time.Minute)
		b.wantPosition(in0, 10_000)
		if b.source.Paused(in0) {
			t.Error("the partition is still paused after the sink caught up")
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		b.wantOnce()
	})
}

// The framework's own part of filter and map allocates nothing per record.
func TestFilterAndMapDoNotAllocate(t *testing.T) {
	const records = 10_000
	var kept atomic.Int64
	events := framework.From(first{})
	sick := framework.Filter(events, func(b byte) bool { return b == 'a' })
	out := framework.MapErr(framework.Map(sick, func(b byte) int { return int(b) }), func(_ framework.Context, i int) (int, error) {
		kept.Add(1)
		return i, nil
	})
	p, err := framework.NewPipeline("allocations", out)
	if err != nil {
		t.Fatal(err)
	}
	process := framework.ProcessForTest(p, memory.NewStore[int]().Open(memory.Options[int]{}), framework.Config{BatchRecords: 1 << 30, BatchBytes: 1 << 30, BatchDelay: time.Hour})
	batch := make([]framework.Record, records)
	offset := int64(0)
	value := []byte{'a'}
	run := func() {
		for i := range batch {
			batch[i] = framework.Record{Offset: offset, Value: value}
			offset++
		}
		process(batch)
	}
	// The first of its two runs grows what is grown once, and is not counted.
	if allocs := testing.AllocsPerRun(1, run); allocs > 0 {
		t.Errorf("%v allocations for %d records, want none", allocs, records)
	}
	if kept.Load() != 2*records {
		t.Errorf("%d records were kept, want %d", kept.Load(), 2*records)
	}
}

type first struct{}

func (first) Decode(data []byte, b *byte) error {
	if len(data) == 0 {
		return fmt.Errorf("empty")
	}
	*b = data[0]
	return nil
}

func TestRunnersOfOneNameAreRefusedTogether(t *testing.T) {
	onBed(t, func(b *bed) {
		p := pipelineOf(t, copyOf)
		err := framework.RunAll(b.t.Context(), b.runner(p), b.runner(p))
		wantError(t, err, framework.ErrDuplicatePipeline, `"test"`)
		if lanes := b.store.AllWrites("test"); len(lanes) != 0 {
			t.Error("something was consumed")
		}
	})
}

func TestRunnerRunsOnce(t *testing.T) {
	onBed(t, func(b *bed) {
		r := b.runner(pipelineOf(t, copyOf))
		ctx, cancel := context.WithCancel(b.t.Context())
		cancel()
		if err := r.Run(ctx); err != nil {
			t.Fatal(err)
		}
		wantError(t, r.Run(ctx), framework.ErrConfig, "twice")
	})
}

func TestSourceThatEndsIsAnError(t *testing.T) {
	onBed(t, func(b *bed) {
		r, err := framework.NewRunner(pipelineOf(t, copyOf), quitter{}, b.store.Open(b.opts), b.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Run(b.t.Context()); err == nil || !strings.Contains(err.Error(), "source") {
			t.Errorf("error %v, want one of the source", err)
		}
	})
}

type quitter struct{}

func (quitter) Run(context.Context, framework.Lanes) error { return nil }

var _ framework.Source = (*frameworktest.Source)(nil)
