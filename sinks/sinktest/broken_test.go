package sinktest

import (
	"context"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/memory"
)

// A suite that nothing fails proves nothing. Here the memory sink is broken in
// one way after another, and each fault must be caught by the case whose rule it
// breaks.

type (
	row       = memory.Row
	sink      = framework.Sink[row]
	claim     = framework.Claim[row]
	batch     = framework.Batch[row]
	partition = offsetstore.TopicPartition
	position  = offsetstore.Position
)

// brokenSink passes every call on, except for those that are replaced.
type brokenSink struct {
	sink
	guarantee func() framework.Guarantee
	check     func(row) (int, error)
	topic     func(ctx context.Context, pipeline, topic string, propose framework.TopicStart) (framework.TopicStart, error)
	claim     func(ctx context.Context, pipeline string, tp partition, start position) (claim, error)
	close     func(ctx context.Context) error
	positions func(ctx context.Context, pipeline string) ([]framework.StoredPosition, error)
	letters   func(ctx context.Context, pipeline string, tp partition) ([]framework.DeadLetter, error)
	drop      func(ctx context.Context, pipeline string, tp partition, letters []framework.DeadLetter) error
	state     func(ctx context.Context, pipeline, operator string) iter.Seq2[framework.StoredState, error]
	flush     func(ctx context.Context, pipeline string, tp partition) error
	reset     func(ctx context.Context, r framework.Reset) error
	migrate   func(ctx context.Context) error
	health    func(ctx context.Context) error
}

func (s *brokenSink) Guarantee() framework.Guarantee {
	if s.guarantee != nil {
		return s.guarantee()
	}
	return s.sink.Guarantee()
}

func (s *brokenSink) Check(w row) (int, error) {
	if s.check != nil {
		return s.check(w)
	}
	return s.sink.Check(w)
}

func (s *brokenSink) Topic(ctx context.Context, pipeline, topic string, propose framework.TopicStart) (framework.TopicStart, error) {
	if s.topic != nil {
		return s.topic(ctx, pipeline, topic, propose)
	}
	return s.sink.Topic(ctx, pipeline, topic, propose)
}

func (s *brokenSink) Claim(ctx context.Context, pipeline string, tp partition, start position) (claim, error) {
	if s.claim != nil {
		return s.claim(ctx, pipeline, tp, start)
	}
	return s.sink.Claim(ctx, pipeline, tp, start)
}

func (s *brokenSink) Close(ctx context.Context) error {
	if s.close != nil {
		return s.close(ctx)
	}
	return s.sink.Close(ctx)
}

func (s *brokenSink) Positions(ctx context.Context, pipeline string) ([]framework.StoredPosition, error) {
	if s.positions != nil {
		return s.positions(ctx, pipeline)
	}
	return s.sink.(framework.PositionLister).Positions(ctx, pipeline)
}

func (s *brokenSink) DeadLetters(ctx context.Context, pipeline string, tp partition) ([]framework.DeadLetter, error) {
	if s.letters != nil {
		return s.letters(ctx, pipeline, tp)
	}
	return s.sink.(framework.DeadLetterLister).DeadLetters(ctx, pipeline, tp)
}

func (s *brokenSink) DropDeadLetters(ctx context.Context, pipeline string, tp partition, letters []framework.DeadLetter) error {
	if s.drop != nil {
		return s.drop(ctx, pipeline, tp, letters)
	}
	return s.sink.(framework.DeadLetterDropper).DropDeadLetters(ctx, pipeline, tp, letters)
}

func (s *brokenSink) State(ctx context.Context, pipeline, operator string) iter.Seq2[framework.StoredState, error] {
	if s.state != nil {
		return s.state(ctx, pipeline, operator)
	}
	return s.sink.(framework.StateLister).State(ctx, pipeline, operator)
}

// Flush has nothing to do: what the memory sink has saved is visible.
func (s *brokenSink) Flush(ctx context.Context, pipeline string, tp partition) error {
	if s.flush != nil {
		return s.flush(ctx, pipeline, tp)
	}
	ps, err := s.Positions(ctx, pipeline)
	if err == nil && !slices.ContainsFunc(ps, func(p framework.StoredPosition) bool { return p.TopicPartition == tp }) {
		err = framework.ErrRefused
	}
	return err
}

func (s *brokenSink) Reset(ctx context.Context, r framework.Reset) error {
	if s.reset != nil {
		return s.reset(ctx, r)
	}
	return s.sink.(framework.Resetter).Reset(ctx, r)
}

func (s *brokenSink) Migrate(ctx context.Context) error {
	if s.migrate != nil {
		return s.migrate(ctx)
	}
	return s.Health(ctx)
}

func (s *brokenSink) Health(ctx context.Context) error {
	if s.health != nil {
		return s.health(ctx)
	}
	return s.sink.(framework.HealthChecker).Health(ctx)
}

// brokenClaim passes every call on, except for those that are replaced.
type brokenClaim struct {
	claim
	progress func() framework.Progress
	load     func(ctx context.Context, keys []framework.StateKey) ([][]byte, error)
	save     func(ctx context.Context, b *batch) error
	release  func(ctx context.Context) error
}

func (c *brokenClaim) Progress() framework.Progress {
	if c.progress != nil {
		return c.progress()
	}
	return c.claim.Progress()
}

func (c *brokenClaim) Load(ctx context.Context, keys []framework.StateKey) ([][]byte, error) {
	if c.load != nil {
		return c.load(ctx, keys)
	}
	return c.claim.Load(ctx, keys)
}

func (c *brokenClaim) Save(ctx context.Context, b *batch) error {
	if c.save != nil {
		return c.save(ctx, b)
	}
	return c.claim.Save(ctx, b)
}

func (c *brokenClaim) Release(ctx context.Context) error {
	if c.release != nil {
		return c.release(ctx)
	}
	return c.claim.Release(ctx)
}

// onClaim breaks every claim of a sink.
func onClaim(damage func(c *brokenClaim, pipeline string, tp partition, s sink)) func(*world) func(sink) sink {
	return func(*world) func(sink) sink {
		return func(s sink) sink {
			b := &brokenSink{sink: s}
			b.claim = func(ctx context.Context, pipeline string, tp partition, start position) (claim, error) {
				inner, err := s.Claim(ctx, pipeline, tp, start)
				if err != nil {
					return nil, err
				}
				c := &brokenClaim{claim: inner}
				damage(c, pipeline, tp, s)
				return c, nil
			}
			return b
		}
	}
}

// onSave changes every batch before it is saved.
func onSave(change func(b *batch)) func(*world) func(sink) sink {
	return onClaim(func(c *brokenClaim, _ string, _ partition, _ sink) {
		c.save = func(ctx context.Context, b *batch) error {
			changed := *b
			change(&changed)
			return c.claim.Save(ctx, &changed)
		}
	})
}

// onNames rewrites the names in every call.
func onNames(rewrite func(pipeline string, tp partition) (string, partition)) func(*world) func(sink) sink {
	return func(*world) func(sink) sink {
		return func(s sink) sink {
			b := &brokenSink{sink: s}
			b.topic = func(ctx context.Context, pipeline, topic string, propose framework.TopicStart) (framework.TopicStart, error) {
				pipeline, tp := rewrite(pipeline, partition{Topic: topic})
				return s.Topic(ctx, pipeline, tp.Topic, propose)
			}
			b.claim = func(ctx context.Context, pipeline string, tp partition, start position) (claim, error) {
				pipeline, tp = rewrite(pipeline, tp)
				return s.Claim(ctx, pipeline, tp, start)
			}
			return b
		}
	}
}

// on breaks a sink as a whole.
func on(damage func(b *brokenSink, w *world)) func(*world) func(sink) sink {
	return func(w *world) func(sink) sink {
		return func(s sink) sink {
			b := &brokenSink{sink: s}
			damage(b, w)
			return b
		}
	}
}

// world is the store of one broken sink, and what its wrappers remember.
type world struct {
	store *memory.Store[row]

	mu      sync.Mutex
	topics  map[string]framework.TopicStart
	claimed map[string]bool

	holding sync.Mutex               // apart, since faults hold mu while they call
	held    map[string]chan struct{} // by pipeline and topic; closed when let go
}

// The limits of the store, which the memory sink does not have by itself.
const (
	refusedValue = "refused by the storage"
	maxBatch     = 2 << 20
)

func newWorld() *world {
	return &world{store: memory.NewStore[row](), topics: map[string]framework.TopicStart{}, claimed: map[string]bool{}, held: map[string]chan struct{}{}}
}

// hold makes calls for a lane wait, as a lock of another process does.
func (w *world) hold(_ context.Context, pipeline string, tp partition) (release func(), err error) {
	w.holding.Lock()
	defer w.holding.Unlock()
	held := make(chan struct{})
	w.held[pipeline+tp.Topic] = held
	return sync.OnceFunc(func() { close(held) }), nil
}

// await waits until the lane is not held, or ctx ends.
func (w *world) await(ctx context.Context, pipeline, topic string) error {
	w.holding.Lock()
	held := w.held[pipeline+topic]
	w.holding.Unlock()
	if held == nil {
		return nil
	}
	select {
	case <-held:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *world) harness(wrap func(sink) sink) Harness[row] {
	save := func(ctx context.Context, pipeline string, tp partition, b *batch) error {
		if err := w.await(ctx, pipeline, tp.Topic); err != nil {
			return err
		}
		size := 0
		for _, w := range b.Writes {
			n, _ := w.Check()
			size += n
			if w.Value == refusedValue {
				return &framework.SaveError{Outcome: framework.NotSaved, Err: framework.ErrRefused}
			}
		}
		if size > maxBatch {
			return &framework.SaveError{Outcome: framework.NotSaved, Err: framework.ErrTooLarge}
		}
		return nil
	}
	h := Harness[row]{
		Guarantee: framework.Guarantee{Level: framework.ExactlyOnce, State: true, DeadLetters: true},
		Open: func(context.Context) (sink, error) {
			return wrap(w.store.Open(memory.Options[row]{Hooks: memory.Hooks[row]{
				BeforeTopic:   w.await,
				BeforeClaim:   func(ctx context.Context, p string, tp partition) error { return w.await(ctx, p, tp.Topic) },
				BeforeSave:    save,
				BeforeRelease: func(ctx context.Context, p string, tp partition) error { return w.await(ctx, p, tp.Topic) },
			}})), nil
		},
		Hold:    w.hold,
		Write:   func(key, value string) row { return row{Table: "rows", Key: key, Value: value} },
		Delete:  func(key string) row { return row{Table: "rows", Key: key, Delete: true} },
		Refused: func(key string) row { return row{Table: "rows", Key: key, Value: refusedValue} },
		Rows: func(_ context.Context, keys []string) (map[string]string, error) {
			rows, found := memory.Rows(w.store, "rows"), map[string]string{}
			for _, key := range keys {
				if v, ok := rows[key]; ok {
					found[key] = v.(string)
				}
			}
			return found, nil
		},
		DeadLetters: func(_ context.Context, pipeline string, tp partition) ([]framework.DeadLetter, error) {
			return w.store.DeadLetters(pipeline, tp), nil
		},
	}
	h.MaxBatch = maxBatch
	return h.withDefaults()
}

// recorder stands in for *testing.T.
type recorder struct {
	mu       sync.Mutex
	failures []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) FailNow() { runtime.Goexit() }

// failures runs one case and returns its failures.
func failures(ctx context.Context, h Harness[row], c testCase[row]) []string {
	r := &recorder{}
	done := make(chan struct{})
	go func() { // FailNow ends the goroutine
		defer close(done)
		runCase(ctx, r, h, c)
	}()
	<-done
	return r.failures
}

func caseNamed(t *testing.T, h Harness[row], name string) testCase[row] {
	t.Helper()
	for _, c := range casesFor(h) {
		if c.name == name {
			return c
		}
	}
	t.Fatalf("there is no case %q", name)
	return testCase[row]{}
}

// failuresOf runs every case that can be run, and returns all failures.
func failuresOf(t *testing.T, h Harness[row]) (failed []string) {
	t.Helper()
	has, err := powersOf(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range casesFor(h) {
		if missing(h, has, c.needs) != "" {
			continue
		}
		for _, f := range failures(t.Context(), h, c) {
			failed = append(failed, c.name+": "+f)
		}
	}
	return failed
}

func TestSuitePassesTheUnbrokenSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, f := range failuresOf(t, newWorld().harness(func(s sink) sink { return &brokenSink{sink: s} })) {
			t.Error(f)
		}
	})
}

// A sink that promises little is asked for little.
func TestSuiteAsksNoMoreThanIsPromised(t *testing.T) {
	w := newWorld()
	drop := onSave(func(b *batch) { b.State, b.DeadLetters = nil, nil })(w)
	h := w.harness(func(s sink) sink {
		return &brokenSink{sink: drop(s), guarantee: func() framework.Guarantee { return framework.Guarantee{} }}
	})
	h.Guarantee = framework.Guarantee{}
	h.DeadLetters, h.Delete, h.Hold, h.Refused, h.MaxBatch = nil, nil, nil, nil, 0
	if err := h.validate(); err != nil {
		t.Fatal(err)
	}
	if n, all := len(casesFor(h)), len(allCases[row]()); n == 0 || n >= all {
		t.Errorf("%d cases of %d are run", n, all)
	}
	for _, f := range failuresOf(t, h) {
		t.Error(f)
	}
}

// A sink without any power passes.
func TestASinkWithoutPowersPasses(t *testing.T) {
	h := newWorld().harness(func(s sink) sink { return struct{ sink }{s} })
	h.Hold = nil // its waits are tested with all powers
	for _, f := range failuresOf(t, h) {
		t.Error(f)
	}
}

// What is not tested is told apart from what is: it is skipped with a reason, and
// one line at the end says what.
func TestWhatCannotBeTestedIsNamed(t *testing.T) {
	full := newWorld().harness(func(s sink) sink { return &brokenSink{sink: s} })
	bare := newWorld().harness(func(s sink) sink { return struct{ sink }{s} })
	bare.Delete, bare.Hold, bare.Refused, bare.MaxBatch = nil, nil, nil, 0
	poor := bare
	poor.Guarantee.Level = framework.AtLeastOnce
	for name, test := range map[string]struct {
		h    Harness[row]
		want []string
		not  []string
	}{
		"all is given":     {full, nil, []string{"not tested"}},
		"nothing is given": {bare, []string{"not tested: ", "Harness.Delete is not given (save_delete_order)", "Harness.Hold", "Harness.Refused", "Harness.MaxBatch", "no framework.Resetter (reset_moves_the_position, ", "no framework.PositionLister", "no framework.Migrator", "no framework.HealthChecker", "no framework.DeadLetterLister", "no framework.DeadLetterDropper", "no framework.StateLister", "no framework.Flusher"}, nil},
		"little promised":  {poor, []string{"Harness.Delete"}, []string{"Harness.Refused", "Harness.MaxBatch"}},
	} {
		has, err := powersOf(t.Context(), test.h)
		if err != nil {
			t.Fatal(err)
		}
		text := untested(test.h, has)
		for _, want := range test.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q lacks %q", name, text, want)
			}
		}
		for _, not := range test.not {
			if strings.Contains(text, not) {
				t.Errorf("%s: %q has %q", name, text, not)
			}
		}
		if strings.Contains(text, "\n") {
			t.Errorf("%s: %q is more than one line", name, text)
		}
	}
}

// As a person sees it, in the output of go test -v.
func TestASkippedCaseIsSeen(t *testing.T) {
	if os.Getenv(bareVariable) != "" {
		Run(t, newWorld().harness(func(s sink) sink { return struct{ sink }{s} }))
		return
	}
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^TestASkippedCaseIsSeen$/^(health|save_visible)$")
	cmd.Env = append(os.Environ(), bareVariable+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"--- SKIP: TestASkippedCaseIsSeen/health",
		"not tested, since the sink is no framework.HealthChecker: Health returns nil while the sink can be reached",
		"--- PASS: TestASkippedCaseIsSeen/save_visible",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	cases, summary := strings.LastIndex(string(out), "=== RUN"), strings.Index(string(out), "not tested: ")
	if summary < cases || strings.Count(string(out), "not tested: ") != 1 {
		t.Errorf("there is not one summary at the end:\n%s", out)
	}
}

// bareVariable makes a test binary run the suite on a sink without powers.
const bareVariable = "SINKTEST_TEST_BARE"

func TestADeadLetterThatDiffersIsToldShortly(t *testing.T) {
	whole := func() framework.DeadLetter {
		return framework.DeadLetter{
			Offset: 1, Stage: "output", Error: "bad", Attempts: 2, FailedAt: time.UnixMilli(5), Timestamp: time.UnixMilli(6),
			Key: []byte{}, Value: []byte(strings.Repeat("v", 100_000) + "end"),
			Headers: []framework.Header{{Key: "a", Value: []byte("1")}, {Key: "b"}},
		}
	}
	for field, change := range map[string]func(*framework.DeadLetter){
		"Offset":           func(d *framework.DeadLetter) { d.Offset++ },
		"Stage":            func(d *framework.DeadLetter) { d.Stage = "" },
		"Error":            func(d *framework.DeadLetter) { d.Error = "b" },
		"Attempts":         func(d *framework.DeadLetter) { d.Attempts = 0 },
		"FailedAt":         func(d *framework.DeadLetter) { d.FailedAt = time.UnixMilli(6) },
		"Timestamp":        func(d *framework.DeadLetter) { d.Timestamp = time.Time{} },
		"Key":              func(d *framework.DeadLetter) { d.Key = nil },
		"Value":            func(d *framework.DeadLetter) { d.Value = d.Value[:len(d.Value)-2] },
		"len(Headers)":     func(d *framework.DeadLetter) { d.Headers = d.Headers[:1] },
		"Headers[0].Key":   func(d *framework.DeadLetter) { d.Headers[0].Key = "" },
		"Headers[1].Value": func(d *framework.DeadLetter) { d.Headers[1].Value = []byte{} },
	} {
		d := whole()
		change(&d)
		if text := deadLetterDiffers(d, whole()); !strings.HasPrefix(text, field+" is ") || len(text) > 300 {
			t.Errorf("%s: %d bytes: %.300s", field, len(text), text)
		}
	}
	if text := deadLetterDiffers(whole(), whole()); text != "" {
		t.Errorf("equal ones: %s", text)
	}
}

func TestHarnessErrorsNameTheField(t *testing.T) {
	good := newWorld().harness(func(s sink) sink { return s })
	for field, remove := range map[string]func(*Harness[row]){
		"Open":        func(h *Harness[row]) { h.Open = nil },
		"Write":       func(h *Harness[row]) { h.Write = nil },
		"Rows":        func(h *Harness[row]) { h.Rows = nil },
		"DeadLetters": func(h *Harness[row]) { h.DeadLetters = nil },
	} {
		h := good
		remove(&h)
		if err := h.validate(); err == nil || !strings.Contains(err.Error(), "Harness."+field) {
			t.Errorf("without %s validate returned %v", field, err)
		}
	}
}

func TestSuiteCatchesEveryFault(t *testing.T) {
	for _, f := range faults() {
		t.Run(strings.ReplaceAll(f.fault, " ", "_"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // a call that hangs takes no time
				w := newWorld()
				h := w.harness(f.wrap(w))
				c := caseNamed(t, h, f.caughtBy)
				got := failures(t.Context(), h, c)
				if len(got) == 0 {
					t.Fatalf("case %s did not notice", f.caughtBy)
				}
				if !strings.Contains(got[0], c.rule) {
					t.Errorf("the failure does not state the rule: %s", got[0])
				}
			})
		})
	}
}

func TestEveryCaseCatchesAFault(t *testing.T) {
	caught := map[string]bool{}
	for _, f := range faults() {
		caught[f.caughtBy] = true
	}
	for _, c := range allCases[row]() {
		if !caught[c.name] {
			t.Errorf("no fault shows that case %s can fail", c.name)
		}
	}
}
