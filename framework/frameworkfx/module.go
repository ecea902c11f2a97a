package frameworkfx

import (
	"fmt"
	"log/slog"
	"time"

	"go.uber.org/fx"

	"github.com/lockstep-stream/lockstep/framework"
)

// DrainTimeout is the default of Config.DrainTimeout for pipelines that fx runs.
// The rest of fx's default of 15 s is for leaving the group and for other hooks.
const DrainTimeout = 10 * time.Second

// Module runs every pipeline of the application and provides [*Pipelines].
var Module = fx.Module("lockstep",
	fx.Provide(NewPipelines),
	fx.Invoke(func(*Pipelines) {}), // or nothing would ask for them
)

// Params is what [NewPipelines] takes from the application.
type Params struct {
	fx.In

	Lifecycle  fx.Lifecycle
	Shutdowner fx.Shutdowner
	Pipelines  []Pipeline   `group:"lockstep"`
	Logger     *slog.Logger `optional:"true"` // defaults to slog.Default()
}

// NewPipelines makes the pipelines part of the application's lifecycle. It is
// what [Module] provides.
func NewPipelines(params Params) (*Pipelines, error) {
	p := &Pipelines{
		log:      params.Logger,
		shutdown: params.Shutdowner,
		begun:    make(chan struct{}),
		stopping: make(chan struct{}),
		ended:    make(chan struct{}),
	}
	if p.log == nil {
		p.log = slog.Default()
	}
	for _, one := range params.Pipelines {
		if err := p.add(one); err != nil {
			return nil, fmt.Errorf("frameworkfx: %w", err)
		}
	}
	if len(p.running) == 0 {
		return nil, fmt.Errorf("frameworkfx: %w: there is no pipeline; a constructor given to fx.Provide has to return a frameworkfx.Result", framework.ErrConfig)
	}
	params.Lifecycle.Append(fx.Hook{OnStart: p.start, OnStop: p.stop})
	return p, nil
}

func (p *Pipelines) add(one Pipeline) error {
	if one.build == nil {
		return fmt.Errorf("%w: a Result has no pipeline; make it with New", framework.ErrConfig)
	}
	for _, r := range p.running {
		if r.Name() == one.name {
			return fmt.Errorf("%w: %q", framework.ErrDuplicatePipeline, one.name)
		}
	}
	r, err := one.build(adjust(one.cfg, p.log))
	p.running = append(p.running, r)
	return err
}

// adjust fills in what the application decides.
func adjust(cfg framework.Config, log *slog.Logger) framework.Config {
	if cfg.Logger == nil {
		cfg.Logger = log
	}
	if cfg.DrainTimeout == 0 {
		cfg.DrainTimeout = DrainTimeout
	}
	return cfg
}
