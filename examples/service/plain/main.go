// Command plain is the service of the folder above in plain Go, without fx.
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-stream/lockstep/examples/service/app"
	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/sinks/sql"
)

// snippet:start

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		slog.Error("the service has failed", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	settings, err := app.ParseFlags()
	if err != nil {
		return err
	}
	db, err := app.OpenDatabase(ctx, settings)
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx)) // after the pipelines have drained
	archive, err := runner(app.Archive, settings, db)
	if err != nil {
		return err
	}
	spending, err := runner(app.Spending, settings, db)
	if err != nil {
		return err
	}
	live := func() error { return nil } // a pipeline that fails ends the process
	ready := func() error { return errors.Join(archive.Ready(), spending.Ready()) }
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return framework.RunAll(ctx, archive, spending) })
	group.Go(func() error { return app.Serve(ctx, settings.Listen, app.Handler(db, live, ready)) })
	return group.Wait()
}

func runner(pipeline func() (*framework.Pipeline[sql.Write], error), settings app.Settings, db *app.Database) (*framework.Runner, error) {
	p, err := pipeline()
	if err != nil {
		return nil, err
	}
	source, err := settings.Source(p.Name())
	if err != nil {
		return nil, err
	}
	return framework.NewRunner(p, source, db.Sink, framework.Config{})
}

// snippet:end
