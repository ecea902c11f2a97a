package frameworkfx

import (
	"fmt"

	"go.uber.org/fx"

	"github.com/lockstep-stream/lockstep/framework"
)

// Pipeline is a pipeline with all that it needs to run, of any write type.
type Pipeline struct {
	name  string
	cfg   framework.Config
	build func(framework.Config) (*framework.Runner, error)
}

// Result is what a constructor returns to put one pipeline into the application.
type Result struct {
	fx.Out

	Pipeline Pipeline `group:"lockstep"`
}

// New puts a pipeline together with its source, sink and settings. A part that
// is missing, and everything that [framework.NewRunner] refuses, is an error that
// matches [framework.ErrConfig] and names the pipeline. It makes no network call.
//
// A source runs once, so each pipeline needs its own. A sink may serve several
// pipelines. The caller keeps it, and closes it in a stop hook.
func New[W any](p *framework.Pipeline[W], source framework.Source, sink framework.Sink[W], cfg framework.Config) (Result, error) {
	switch {
	case p == nil:
		return Result{}, fmt.Errorf("frameworkfx: %w: the pipeline given to New is nil", framework.ErrConfig)
	case p.Name() == "":
		return Result{}, fmt.Errorf("frameworkfx: %w: the pipeline given to New has no name; make it with framework.NewPipeline", framework.ErrConfig)
	case source == nil:
		return Result{}, fmt.Errorf("frameworkfx: pipeline %q: %w: its source is nil", p.Name(), framework.ErrConfig)
	case sink == nil:
		return Result{}, fmt.Errorf("frameworkfx: pipeline %q: %w: its sink is nil", p.Name(), framework.ErrConfig)
	}
	build := func(cfg framework.Config) (*framework.Runner, error) {
		return framework.NewRunner(p, source, sink, cfg)
	}
	if _, err := build(cfg); err != nil { // told where the mistake was made
		return Result{}, fmt.Errorf("frameworkfx: %w", err)
	}
	return Result{Pipeline: Pipeline{name: p.Name(), cfg: cfg, build: build}}, nil
}
