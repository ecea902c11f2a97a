// Command service is an HTTP service with two pipelines inside, put together
// with fx. In plain Go it is the folder plain.
package main

import (
	"context"
	"log/slog"

	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"

	"github.com/lockstep-stream/lockstep/examples/service/app"
	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/frameworkfx"
	"github.com/lockstep-stream/lockstep/sinks/sql"
)

// snippet:start

func main() {
	fx.New(
		frameworkfx.Module,
		fx.Provide(slog.Default, app.ParseFlags, newDatabase, newArchive, newSpending),
		fx.Invoke(serve),
		fx.WithLogger(func(log *slog.Logger) fxevent.Logger {
			events := &fxevent.SlogLogger{Logger: log}
			events.UseLogLevel(slog.LevelDebug)
			return events
		}),
	).Run()
}

func newDatabase(settings app.Settings, lc fx.Lifecycle) (*app.Database, error) {
	db, err := app.OpenDatabase(context.Background(), settings)
	if err == nil {
		lc.Append(fx.StopHook(db.Close)) // runs after the pipelines have drained
	}
	return db, err
}

func newArchive(settings app.Settings, db *app.Database) (frameworkfx.Result, error) {
	return result(app.Archive, settings, db)
}

func newSpending(settings app.Settings, db *app.Database) (frameworkfx.Result, error) {
	return result(app.Spending, settings, db)
}

func result(pipeline func() (*framework.Pipeline[sql.Write], error), settings app.Settings, db *app.Database) (frameworkfx.Result, error) {
	p, err := pipeline()
	if err != nil {
		return frameworkfx.Result{}, err
	}
	source, err := settings.Source(p.Name())
	if err != nil {
		return frameworkfx.Result{}, err
	}
	return frameworkfx.New(p, source, db.Sink, framework.Config{})
}

// snippet:end

// serve answers HTTP for as long as the application runs.
func serve(lc fx.Lifecycle, sd fx.Shutdowner, settings app.Settings, db *app.Database, pipelines *frameworkfx.Pipelines, log *slog.Logger) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	lc.Append(fx.StartStopHook(func() {
		go func() {
			defer close(ended)
			err := app.Serve(ctx, settings.Listen, app.Handler(db, pipelines.Live, pipelines.Ready))
			if err != nil {
				log.Error("HTTP cannot be answered, the service stops", "error", err)
				_ = sd.Shutdown(fx.ExitCode(1)) // it is being stopped already
			}
		}()
	}, func() {
		cancel()
		<-ended
	}))
}
