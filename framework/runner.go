package framework

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// Runner runs one pipeline from one source into one sink, in this process. Many
// processes may run the same pipeline: the source spreads the partitions over
// them, and the sink's claims keep each partition to one owner.
type Runner struct {
	name      string
	guarantee Guarantee
	ran       atomic.Bool
	run       func(context.Context) error
	lanes     func() []LaneStatus
	ready     func() error
}

// NewRunner checks that the parts fit together: mistakes in cfg, and a sink
// that guarantees less than the pipeline needs, are refused with an error that
// matches [ErrConfig]. It makes no network call. The caller keeps the sink and
// closes it after Run.
func NewRunner[W any](p *Pipeline[W], source Source, sink Sink[W], cfg Config) (*Runner, error) {
	if p == nil || source == nil || sink == nil {
		return nil, fmt.Errorf("%w: NewRunner: pipeline, source and sink must not be nil", ErrConfig)
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("pipeline %q: %w: %w", p.name, ErrConfig, err)
	}
	if err := fits(p.needs, sink.Guarantee()); err != nil {
		return nil, fmt.Errorf("pipeline %q: %w: %w", p.name, ErrConfig, err)
	}
	e := newEngine(p, source, sink, cfg.WithDefaults())
	return &Runner{name: p.name, guarantee: sink.Guarantee(), run: e.run, lanes: e.status, ready: e.ready}, nil
}

func fits(needs, has Guarantee) error {
	switch {
	case needs.Level > has.Level:
		return fmt.Errorf("the sink works %s; choose another, or accept it with AcceptAtLeastOnce", has.Level)
	case needs.State && !has.State:
		return errors.New("the pipeline has a ReduceByKey, but the sink cannot hold its state")
	case needs.DeadLetters && !has.DeadLetters:
		return errors.New("a failure policy uses dead letters, but the sink cannot hold them")
	}
	return nil
}

// Name returns the pipeline's name.
func (r *Runner) Name() string { return r.name }

// Guarantee returns what the sink promises for this pipeline.
func (r *Runner) Guarantee() Guarantee { return r.guarantee }

// Lanes returns the state of every partition that is assigned now, ordered by
// topic and partition. It may be called at any time.
func (r *Runner) Lanes() []LaneStatus { return r.lanes() }

// Run works until ctx is cancelled, or until something fails for good. It then
// drains: what was processed is saved, partitions are released, the source
// leaves its group. It returns when every goroutine it started has ended, with
// the first error; after a cancelled ctx and a complete drain it returns nil.
// Whatever it returns, position and outputs agree.
//
// Cancelling ctx never cuts a save in half. If draining takes longer than
// Config.DrainTimeout, what is not saved by then is given up, to be done again
// by the next owner, and the error matches [ErrDrainTimeout].
//
// A runner runs once.
func (r *Runner) Run(ctx context.Context) error {
	if r.ran.Swap(true) {
		return fmt.Errorf("pipeline %q: %w: Run was called twice; build a new Runner", r.name, ErrConfig)
	}
	return r.run(ctx)
}

// RunAll runs several pipelines in one process. When one fails the others are
// drained too. It returns when all have ended, with all their errors joined.
// Two runners of the same pipeline name are refused with [ErrDuplicatePipeline]
// before any of them starts: they would take the partitions from each other.
func RunAll(ctx context.Context, runners ...*Runner) error {
	names := map[string]bool{}
	for _, r := range runners {
		if names[r.name] {
			return fmt.Errorf("%w: %q", ErrDuplicatePipeline, r.name)
		}
		names[r.name] = true
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(runners))
	var wg sync.WaitGroup
	for i, r := range runners {
		wg.Go(func() {
			defer stop()
			errs[i] = r.Run(ctx)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
