package frameworkfx_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/fx"
	"go.uber.org/fx/fxtest"
	"go.uber.org/goleak"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/codec"
	"github.com/lockstep-stream/lockstep/framework/frameworkfx"
	"github.com/lockstep-stream/lockstep/framework/frameworktest"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var in0 = offsetstore.TopicPartition{Topic: "in", Partition: 0}

// bed is a pipeline named name that keeps each record of its own log, and fails
// for good at the record "poison".
type bed struct {
	name  string
	log   *frameworktest.Log
	store *memory.Store[memory.Row]
	hooks memory.Hooks[memory.Row]
	cfg   framework.Config
}

func newBed(name string, records ...string) *bed {
	b := &bed{name: name, log: frameworktest.NewLog(), store: memory.NewStore[memory.Row]()}
	b.log.Produce(in0.Topic, in0.Partition, records...)
	return b
}

func (b *bed) pipeline() (*framework.Pipeline[memory.Row], error) {
	rows := framework.MapErr(framework.From(codec.String()), func(_ framework.Context, s string) (memory.Row, error) {
		if s == "poison" {
			return memory.Row{}, errors.New("it is poison")
		}
		return memory.Row{Table: "rows", Key: s, Value: s}, nil
	})
	return framework.NewPipeline(b.name, rows)
}

// result is a constructor as an application has it.
func (b *bed) result() (frameworkfx.Result, error) {
	p, err := b.pipeline()
	if err != nil {
		return frameworkfx.Result{}, err
	}
	return frameworkfx.New(p, frameworktest.NewSource(b.log), b.store.Open(memory.Options[memory.Row]{Hooks: b.hooks}), b.cfg)
}

func (b *bed) saved() int64 {
	position, _ := b.store.Position(b.name, in0)
	return position.Offset
}

// appOf returns an application of these pipelines, not started, that logs
// nothing.
func appOf(t *testing.T, beds ...*bed) (*fxtest.App, *frameworkfx.Pipelines) {
	t.Helper()
	return appLogging(t, slog.New(slog.DiscardHandler), beds...)
}

func appLogging(t *testing.T, log *slog.Logger, beds ...*bed) (*fxtest.App, *frameworkfx.Pipelines) {
	t.Helper()
	var pipelines *frameworkfx.Pipelines
	opts := []fx.Option{frameworkfx.Module, fx.Populate(&pipelines), fx.Supply(log)}
	for _, b := range beds {
		opts = append(opts, fx.Provide(b.result))
	}
	return fxtest.New(t, opts...), pipelines
}

// await waits for what another goroutine does.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func TestPipelinesStartAndDrainWithTheApplication(t *testing.T) {
	one, two := newBed("one", "a", "b", "c"), newBed("two", "d")
	app, pipelines := appOf(t, one, two)
	if err := pipelines.Ready(); err == nil || pipelines.Live() != nil {
		t.Errorf("before the start Ready returned %v, Live %v; want an error, and nil", err, pipelines.Live())
	}
	app.RequireStart()
	await(t, "both have saved", func() bool { return one.saved() == 3 && two.saved() == 1 })
	if err := errors.Join(pipelines.Ready(), pipelines.Live()); err != nil {
		t.Errorf("while all runs: %v", err)
	}
	if names := pipelines.Runners(); len(names) != 2 {
		t.Errorf("%d runners, want 2", len(names))
	}
	app.RequireStop()
	if err := pipelines.Ready(); err == nil || pipelines.Live() != nil {
		t.Errorf("after the stop Ready returned %v, Live %v; want an error, and nil", err, pipelines.Live())
	}
	if l, _ := one.store.Lane("one", in0); l.Owner != "" {
		t.Errorf("%q still owns the partition after the stop", l.Owner)
	}
}

func TestAStopWaitsForTheSaveInFlight(t *testing.T) {
	saving, release := make(chan struct{}), make(chan struct{})
	b := newBed("slow", "a")
	b.hooks.BeforeSave = func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[memory.Row]) error {
		close(saving)
		<-release
		return nil
	}
	app, pipelines := appOf(t, b)
	app.RequireStart()
	<-saving
	stopped := make(chan error, 1)
	go func() { stopped <- app.Stop(t.Context()) }()
	await(t, "the stop has begun", func() bool { return pipelines.Ready() != nil })
	select {
	case err := <-stopped:
		t.Fatalf("stopped (%v) with a save in flight", err)
	default:
	}
	close(release)
	if err := <-stopped; err != nil || b.saved() != 1 {
		t.Errorf("Stop returned %v, saved to %d; want nil and 1", err, b.saved())
	}
}

func TestAStopThatTakesTooLongNamesThePipelines(t *testing.T) {
	saving, release := make(chan struct{}), make(chan struct{})
	b := newBed("stuck", "a")
	b.hooks.BeforeSave = func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[memory.Row]) error {
		close(saving)
		<-release
		return nil
	}
	var log lines
	app, pipelines := appLogging(t, slog.New(slog.NewTextHandler(&log, nil)), b)
	app.RequireStart()
	<-saving
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- app.Stop(ctx) }()
	await(t, "the stop has begun", func() bool { return pipelines.Ready() != nil })
	cancel() // stands for fx's stop timeout
	err := <-stopped
	if err == nil || !errors.Is(err, context.Canceled) {
		t.Errorf("Stop returned %v, want the context's error", err)
	}
	await(t, "the log names it", func() bool { return strings.Contains(log.String(), "pipelines=[stuck]") })
	close(release) // the goroutine ends, which goleak sees to
	await(t, "the pipeline has drained", func() bool { return b.saved() == 1 })
}

func TestAPipelineThatFailsForGoodStopsTheApplication(t *testing.T) {
	good, bad := newBed("good", "a", "b"), newBed("bad", "x", "poison")
	app, pipelines := appOf(t, good, bad)
	signals := app.Wait()
	app.RequireStart()
	if s := <-signals; s.ExitCode != 1 {
		t.Errorf("exit code %d, want 1", s.ExitCode)
	}
	err := app.Stop(t.Context())
	var record *framework.RecordError
	if !errors.As(err, &record) || record.Pipeline != "bad" || record.Offset != 1 {
		t.Errorf("Stop returned %v, want the *RecordError of bad at offset 1", err)
	}
	if !errors.As(pipelines.Live(), &record) || !errors.As(pipelines.Ready(), &record) {
		t.Errorf("Live returned %v and Ready %v, want the *RecordError", pipelines.Live(), pipelines.Ready())
	}
	if l, _ := good.store.Lane("good", in0); l.Owner != "" {
		t.Errorf("the other pipeline was not drained: %q owns its partition", l.Owner)
	}
}

func TestReadyWaitsForEveryClaim(t *testing.T) {
	release := make(chan struct{})
	b := newBed("one", "a")
	b.log.Create(in0.Topic, 2)
	b.hooks.BeforeClaim = func(_ context.Context, _ string, tp offsetstore.TopicPartition) error {
		if tp.Partition == 1 {
			<-release
		}
		return nil
	}
	app, pipelines := appOf(t, b)
	app.RequireStart()
	await(t, "partition 0 has saved", func() bool { return b.saved() == 1 })
	if err := pipelines.Ready(); err == nil || !strings.Contains(err.Error(), `pipeline "one": in/1: claiming`) {
		t.Errorf("with a claim in flight Ready returned %v", err)
	}
	close(release)
	await(t, "ready", func() bool { return pipelines.Ready() == nil })
	app.RequireStop()
}

func TestReadySaysWhatALaneRecoversFrom(t *testing.T) {
	var once sync.Once
	var app *fxtest.App
	var pipelines *frameworkfx.Pipelines
	b := newBed("one", "a")
	said := make(chan error, 1)
	b.hooks.BeforeClaim = func(context.Context, string, offsetstore.TopicPartition) (err error) {
		once.Do(func() { err = framework.ErrUnavailable })
		return err
	}
	b.cfg.Hooks.Recovering = func(framework.RecoveringEvent) { said <- pipelines.Ready() }
	app, pipelines = appOf(t, b)
	app.RequireStart()
	if err := <-said; !errors.Is(err, framework.ErrUnavailable) {
		t.Errorf("Ready returned %v, want the reason", err)
	}
	await(t, "ready", func() bool { return pipelines.Ready() == nil })
	app.RequireStop()
}

// More processes than partitions: those without one wait to take over.
func TestAPipelineWithoutAPartitionIsReady(t *testing.T) {
	b := newBed("idle")
	b.log = frameworktest.NewLog()
	app, pipelines := appOf(t, b)
	app.RequireStart()
	await(t, "ready", func() bool { return pipelines.Ready() == nil })
	app.RequireStop()
}

func TestMistakesAreErrorsBeforeTheStart(t *testing.T) {
	one := newBed("one")
	good, err := one.pipeline()
	if err != nil {
		t.Fatal(err)
	}
	source, sink := frameworktest.NewSource(one.log), one.store.Open(memory.Options[memory.Row]{})
	newOf := func(p *framework.Pipeline[memory.Row], source framework.Source, sink framework.Sink[memory.Row], cfg framework.Config) any {
		return func() (frameworkfx.Result, error) { return frameworkfx.New(p, source, sink, cfg) }
	}
	unnamed := newBed("")
	for mistake, c := range map[string]struct {
		constructors []any
		kind         error
		text         string
	}{
		"an unnamed pipeline":   {[]any{unnamed.result}, framework.ErrConfig, "no name"},
		"a pipeline not made":   {[]any{newOf(&framework.Pipeline[memory.Row]{}, source, sink, framework.Config{})}, framework.ErrConfig, "NewPipeline"},
		"a nil pipeline":        {[]any{newOf(nil, source, sink, framework.Config{})}, framework.ErrConfig, "is nil"},
		"a nil source":          {[]any{newOf(good, nil, sink, framework.Config{})}, framework.ErrConfig, `pipeline "one": configuration: its source is nil`},
		"a nil sink":            {[]any{newOf(good, source, nil, framework.Config{})}, framework.ErrConfig, `pipeline "one": configuration: its sink is nil`},
		"a wrong setting":       {[]any{newOf(good, source, sink, framework.Config{BatchBytes: -1})}, framework.ErrConfig, "Config.BatchBytes"},
		"two of one name":       {[]any{one.result, newOf(good, source, sink, framework.Config{})}, framework.ErrDuplicatePipeline, `"one"`},
		"a result without":      {[]any{func() frameworkfx.Result { return frameworkfx.Result{} }}, framework.ErrConfig, "make it with New"},
		"no pipeline":           {nil, framework.ErrConfig, "no pipeline"},
		"a constructor's error": {[]any{func() (frameworkfx.Result, error) { return frameworkfx.Result{}, framework.ErrUnavailable }}, framework.ErrUnavailable, ""},
	} {
		app := fx.New(fx.NopLogger, frameworkfx.Module, fx.Provide(c.constructors...))
		if err := app.Err(); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: fx.New has the error %v, want %q and %q", mistake, err, c.kind, c.text)
		}
	}
}

func TestASecondStartIsRefused(t *testing.T) {
	app, _ := appOf(t, newBed("one", "a"))
	app.RequireStart().RequireStop()
	if err := app.Start(t.Context()); !errors.Is(err, framework.ErrConfig) {
		t.Errorf("the second start returned %v", err)
	}
	_ = app.Stop(t.Context())
}

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestPipelinesLogWhereTheApplicationDoes(t *testing.T) {
	var app, own lines
	one, two := newBed("one", "a"), newBed("two", "b")
	two.cfg.Logger = slog.New(slog.NewTextHandler(&own, nil))
	a, _ := appLogging(t, slog.New(slog.NewTextHandler(&app, nil)), one, two)
	a.RequireStart().RequireStop()
	if s := app.String(); !strings.Contains(s, "pipeline=one") || strings.Contains(s, "pipeline=two") {
		t.Errorf("the application's log: %s", s)
	}
	if s := own.String(); !strings.Contains(s, "pipeline=two") || strings.Contains(s, "pipeline=one") {
		t.Errorf("the pipeline's own log: %s", s)
	}
}
