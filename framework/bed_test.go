package framework_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/frameworktest"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	row   = memory.Row
	keyed = framework.Keyed[string, int]
	wire  struct{ k, v string } // "a=1"
)

var (
	in0 = offsetstore.TopicPartition{Topic: "in", Partition: 0}
	in1 = offsetstore.TopicPartition{Topic: "in", Partition: 1}
)

// wires decodes "key=value".
type wires struct{}

func (wires) Decode(data []byte, w *wire) error {
	var ok bool
	if w.k, w.v, ok = strings.Cut(string(data), "="); !ok {
		return fmt.Errorf("%q is not key=value", data)
	}
	return nil
}

// copyOf writes one row a record, keyed by where it came from.
func copyOf(in framework.Stream[wire]) framework.Stream[row] {
	return framework.MapErr(in, func(ctx framework.Context, w wire) (row, error) {
		at := fmt.Sprintf("%s/%d@%d", ctx.Topic(), ctx.Partition(), ctx.Record().Offset)
		return row{Table: "copy", Key: at, Value: w.k + "=" + w.v}, nil
	})
}

// sumOf writes running totals, with the partition in the row's key.
func sumOf(in framework.Stream[wire]) framework.Stream[row] {
	pairs := framework.MapErr(in, func(_ framework.Context, w wire) (keyed, error) {
		n, err := strconv.Atoi(w.v)
		return keyed{Key: w.k, Value: n}, err
	}, framework.Named("to-int"))
	totals := framework.ReduceByKey("sum", pairs, func(a, b int) int { return a + b })
	return framework.MapErr(totals, func(ctx framework.Context, k keyed) (row, error) {
		return row{Table: "sum", Key: fmt.Sprintf("%s %s/%d", k.Key, ctx.Topic(), ctx.Partition()), Value: k.Value}, nil
	})
}

func copyAndSum(in framework.Stream[wire]) framework.Stream[row] {
	return framework.Merge(copyOf(in), sumOf(in))
}

func pipelineOf(t *testing.T, shape func(framework.Stream[wire]) framework.Stream[row], opts ...framework.PipelineOption) *framework.Pipeline[row] {
	t.Helper()
	p, err := framework.NewPipeline("test", shape(framework.From(wires{})), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// bed is one log and one store, on which pipelines are run, stopped and run
// again, in virtual time.
type bed struct {
	t      *testing.T
	log    *frameworktest.Log
	store  *memory.Store[row]
	cfg    framework.Config
	opts   memory.Options[row]
	source *frameworktest.Source // of the last run
}

func onBed(t *testing.T, test func(b *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		quiet := slog.New(slog.DiscardHandler)
		test(&bed{t: t, log: frameworktest.NewLog(), store: memory.NewStore[row](), cfg: framework.Config{Logger: quiet}})
	})
}

// runner returns a runner on a fresh source and sink, as a new process would
// have.
func (b *bed) runner(p *framework.Pipeline[row]) *framework.Runner {
	b.t.Helper()
	return b.runnerOn(p, b.store.Open(b.opts))
}

func (b *bed) runnerOn(p *framework.Pipeline[row], sink framework.Sink[row]) *framework.Runner {
	b.t.Helper()
	b.source = frameworktest.NewSource(b.log)
	r, err := framework.NewRunner(p, b.source, sink, b.cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// run runs p until everything is saved or it fails.
func (b *bed) run(p *framework.Pipeline[row]) error {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Hour)
	defer cancel()
	return frameworktest.RunUntilSaved(ctx, b.runner(p), b.log)
}

func (b *bed) mustRun(p *framework.Pipeline[row]) {
	b.t.Helper()
	if err := b.run(p); err != nil {
		b.t.Fatal(err)
	}
}

// start runs p in the background until the returned function is called, which
// returns what Run returned.
func (b *bed) start(p *framework.Pipeline[row]) (stop func() error) {
	b.t.Helper()
	return b.startRunner(b.runner(p))
}

// settle waits until nothing is left to do.
func (b *bed) settle() {
	time.Sleep(time.Minute)
	synctest.Wait()
}

func (b *bed) startRunner(r *framework.Runner) (stop func() error) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	synctest.Wait()
	return func() error {
		cancel()
		return <-done
	}
}

// move resets a stored position, as an operator does.
func (b *bed) move(tp offsetstore.TopicPartition, to offsetstore.Position) { b.reset(tp, to, false) }

func (b *bed) reset(tp offsetstore.TopicPartition, to offsetstore.Position, dropState bool) {
	b.t.Helper()
	r := framework.Reset{Pipeline: "test", TopicPartition: tp, From: b.lane(tp).Position, To: to, DropState: dropState}
	if err := b.store.Open(memory.Options[row]{}).Reset(b.t.Context(), r); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) lane(tp offsetstore.TopicPartition) memory.Lane[row] {
	b.t.Helper()
	l, ok := b.store.Lane("test", tp)
	if !ok {
		b.t.Fatalf("no lane %s in the store", tp)
	}
	return l
}

func (b *bed) wantPosition(tp offsetstore.TopicPartition, want int64) {
	b.t.Helper()
	if got := b.lane(tp).Position.Offset; got != want {
		b.t.Errorf("position of %s is %d, want %d", tp, got, want)
	}
}

func (b *bed) wantRows(table string, want ...string) {
	b.t.Helper()
	got := map[string]bool{}
	for k, v := range memory.Rows(b.store, table) {
		got[fmt.Sprintf("%s: %v", k, v)] = true
	}
	for _, w := range want {
		if !got[w] {
			b.t.Errorf("table %s lacks row %q", table, w)
		}
		delete(got, w)
	}
	for extra := range got {
		b.t.Errorf("table %s has row %q, which should not be", table, extra)
	}
}

// wantTotals compares what a reader sees: totals added up over partitions.
func (b *bed) wantTotals(want map[string]int) {
	b.t.Helper()
	got := map[string]int{}
	for k, v := range memory.Rows(b.store, "sum") {
		key, _, _ := strings.Cut(k, " ")
		got[key] += v.(int)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		b.t.Errorf("totals %v, want %v", got, want)
	}
}

// wantOnce checks that each of the rows was written by exactly one save.
func (b *bed) wantOnce() {
	b.t.Helper()
	seen := map[string]int{}
	for _, tp := range b.log.Partitions() {
		for _, w := range b.lane(tp).Writes {
			if w.Table == "copy" {
				seen[w.Key]++
			}
		}
	}
	for key, n := range seen {
		if n != 1 {
			b.t.Errorf("row %s was written %d times", key, n)
		}
	}
}

func (b *bed) counters(tp offsetstore.TopicPartition) framework.Counters {
	b.t.Helper()
	c, err := framework.DecodeCounters(b.lane(tp).Lane)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

func wantError(t *testing.T, err, want error, texts ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want one that matches %v", err, want)
	}
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v does not mention %q", err, text)
		}
	}
}
