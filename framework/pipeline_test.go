package framework_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/sinks/memory"
)

func TestMistakesAreRefusedWhenThePipelineIsBuilt(t *testing.T) {
	events := framework.From(wires{})
	rows := copyOf(events)
	add := func(a, b int) int { return a + b }
	pairs := framework.Map(events, func(w wire) keyed { return keyed{Key: w.k} })
	asRow := func(k keyed) row { return row{} }
	skip := framework.OnFailure(framework.FailurePolicy{Action: framework.ActionSkip})

	for _, c := range []struct {
		name     string
		pipeline string
		root     framework.Stream[row]
		opts     []framework.PipelineOption
		wrong    string
	}{
		{"no name", "", rows, nil, "no name"},
		{"a name with a slash", "a/b", rows, nil, "letters"},
		{"a name too long", strings.Repeat("x", 101), rows, nil, "100"},
		{"no stream", "p", framework.Stream[row]{}, nil, "not made by From"},
		{"no decoder", "p", copyOf(framework.From[wire](nil)), nil, "decoder is nil"},
		{"nil map", "p", framework.Map[wire, row](events, nil), nil, "map: the function is nil"},
		{"nil filter", "p", framework.Filter(rows, nil, framework.Named("sick")), nil, "filter sick: the function is nil"},
		{"nil flatMap", "p", framework.FlatMap[wire, row](events, nil), nil, "flatMap: the function is nil"},
		{"empty merge", "p", framework.Merge[row](), nil, "no streams"},
		{"two From", "p", framework.Merge(rows, copyOf(framework.From(wires{}))), nil, "two From"},
		{"nil reduce", "p", framework.Map(framework.ReduceByKey("r", pairs, nil), asRow), nil, "function is nil"},
		{"reduce without a name", "p", framework.Map(framework.ReduceByKey("", pairs, add), asRow), nil, "ReduceByKey"},
		{"reduce without a cache", "p", framework.Map(framework.ReduceByKey("r", pairs, add, framework.CacheKeys[string, int](0)), asRow), nil, "CacheKeys"},
		{"two reduces of one name", "p", framework.Merge(
			framework.Map(framework.ReduceByKey("r", pairs, add), asRow),
			framework.Map(framework.ReduceByKey("r", pairs, add), asRow)), nil, `two ReduceByKey are named "r"`},
		{"a reduce of totals", "p", framework.Map(framework.ReduceByKey("outer", framework.ReduceByKey("inner", pairs, add), add), asRow), nil, "follows another"},
		{"skip after a reduce", "p", framework.Map(framework.ReduceByKey("r", pairs, add), asRow, skip), nil, "only ActionStop"},
		{"negative retries", "p", rows, []framework.PipelineOption{framework.OnHandlerFailure(framework.FailurePolicy{Retries: -1})}, "Retries"},
		{"an unknown action", "p", rows, []framework.PipelineOption{framework.OnDecodeFailure(framework.FailurePolicy{Action: 9})}, "unknown action"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := framework.NewPipeline(c.pipeline, c.root, c.opts...)
			if !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("error %v, want an ErrConfig with %q", err, c.wrong)
			}
		})
	}
	if _, err := framework.NewPipeline("a-b_c.9", framework.Merge(rows, copyOf(events)), framework.OnHandlerFailure(framework.FailurePolicy{Action: framework.ActionSkip})); err != nil {
		t.Errorf("a legal pipeline is refused: %v", err)
	}
}

// weaker is a sink that promises less.
type weaker struct {
	*memory.Sink[row]
	has framework.Guarantee
}

func (w weaker) Guarantee() framework.Guarantee { return w.has }

func TestSinkThatGuaranteesTooLittleIsRefused(t *testing.T) {
	full := framework.Guarantee{Level: framework.ExactlyOnce, State: true, DeadLetters: true}
	less := func(change func(*framework.Guarantee)) framework.Guarantee { g := full; change(&g); return g }
	deadLetters := framework.OnDecodeFailure(framework.FailurePolicy{Action: framework.ActionDeadLetter})
	for _, c := range []struct {
		name  string
		shape func(framework.Stream[wire]) framework.Stream[row]
		opts  []framework.PipelineOption
		has   framework.Guarantee
		wrong string // "": accepted
	}{
		{"at least once", copyOf, nil, less(func(g *framework.Guarantee) { g.Level = framework.AtLeastOnce }), "AcceptAtLeastOnce"},
		{"at least once, accepted", copyOf, []framework.PipelineOption{framework.AcceptAtLeastOnce()}, less(func(g *framework.Guarantee) { g.Level = framework.AtLeastOnce }), ""},
		{"no state", sumOf, nil, less(func(g *framework.Guarantee) { g.State = false }), "state"},
		{"no state needed", copyOf, nil, less(func(g *framework.Guarantee) { g.State = false }), ""},
		{"no dead letters", copyOf, []framework.PipelineOption{deadLetters}, less(func(g *framework.Guarantee) { g.DeadLetters = false }), "dead letters"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sink := weaker{memory.NewStore[row]().Open(memory.Options[row]{}), c.has}
			_, err := framework.NewRunner(pipelineOf(t, c.shape, c.opts...), quitter{}, sink, framework.Config{})
			if c.wrong == "" && err != nil {
				t.Errorf("refused: %v", err)
			}
			if c.wrong != "" {
				wantError(t, err, framework.ErrConfig, c.wrong)
			}
		})
	}
}

func TestConfigMistakesAreNamed(t *testing.T) {
	sink := memory.NewStore[row]().Open(memory.Options[row]{})
	p := pipelineOf(t, copyOf)
	for name, cfg := range map[string]framework.Config{
		"BatchBytes":    {BatchBytes: -1},
		"DrainTimeout":  {DrainTimeout: -1},
		"BelowLogStart": {BelowLogStart: 9},
	} {
		_, err := framework.NewRunner(p, quitter{}, sink, cfg)
		wantError(t, err, framework.ErrConfig, name)
	}
	_, err := framework.NewRunner(p, nil, sink, framework.Config{})
	wantError(t, err, framework.ErrConfig, "nil")
}
