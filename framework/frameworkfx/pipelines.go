package frameworkfx

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"go.uber.org/fx"

	"github.com/lockstep-stream/lockstep/framework"
)

// Pipelines are the pipelines of an application. Its methods may be called at any
// time, from any goroutine.
type Pipelines struct {
	log      *slog.Logger
	shutdown fx.Shutdowner
	running  []*framework.Runner
	cancel   context.CancelFunc // set by start

	begun    chan struct{} // closed by start
	stopOnce sync.Once
	stopping chan struct{} // closed by stop
	ended    chan struct{} // closed when all pipelines have ended
	err      error         // what they ended with; set before ended is closed
}

// Runners returns the runner of each pipeline, for a closer look. Do not run
// them.
func (p *Pipelines) Runners() []*framework.Runner {
	return slices.Clone(p.running)
}

// Live returns nil while all pipelines work or drain, and after a drain without
// error. Otherwise it says why not; only a new process can help then.
func (p *Pipelines) Live() error {
	if closed(p.ended) {
		return p.err
	}
	return nil
}

// Ready returns nil while the application runs and every partition that is
// assigned to this process is claimed, as [framework.Runner.Ready] says of each
// pipeline. Otherwise it says what is missing.
func (p *Pipelines) Ready() error {
	switch {
	case !closed(p.begun):
		return errors.New("the pipelines have not been started")
	case closed(p.ended) && p.err != nil:
		return p.err
	case closed(p.stopping), closed(p.ended):
		return errors.New("the pipelines are being stopped")
	}
	for _, r := range p.running {
		if err := r.Ready(); err != nil {
			return err
		}
	}
	return nil
}

// start is the start hook. The pipelines outlive its context, which ends with
// the start.
func (p *Pipelines) start(context.Context) error {
	if closed(p.begun) {
		return fmt.Errorf("frameworkfx: %w: the application was started again after a stop; pipelines run once, make a new application", framework.ErrConfig)
	}
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	close(p.begun)
	go p.run(ctx)
	return nil
}

func (p *Pipelines) run(ctx context.Context) {
	defer close(p.ended)
	p.err = framework.RunAll(ctx, p.running...)
	if p.err == nil || ctx.Err() != nil {
		return // stop returns it
	}
	p.log.Error("a pipeline has failed for good, the application stops", "error", p.err)
	if err := p.shutdown.Shutdown(fx.ExitCode(1)); err != nil {
		p.log.Error("the application could not be asked to stop", "error", err)
	}
}

// stop is the stop hook.
func (p *Pipelines) stop(ctx context.Context) error {
	p.stopOnce.Do(func() { close(p.stopping) })
	p.cancel()
	select {
	case <-p.ended:
		return p.err
	case <-ctx.Done():
		// Logged, since fx returns its own error when its time is over.
		p.log.Error("fx's time to stop was over before the pipelines had drained; what was not saved is done again by the next owner; make Config.DrainTimeout shorter than fx.StopTimeout",
			"pipelines", p.names())
		return fmt.Errorf("frameworkfx: pipelines %v have not drained: %w", p.names(), ctx.Err())
	}
}

func (p *Pipelines) names() []string {
	names := make([]string, len(p.running))
	for i, r := range p.running {
		names[i] = r.Name()
	}
	return names
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
