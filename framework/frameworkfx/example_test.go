package frameworkfx_test

import (
	"context"
	"fmt"
	"log/slog"

	"go.uber.org/fx"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/codec"
	"github.com/lockstep-stream/lockstep/framework/frameworkfx"
	"github.com/lockstep-stream/lockstep/framework/frameworktest"
	"github.com/lockstep-stream/lockstep/sinks/memory"
)

// newSource stands for sources/kafka; a source runs once, so a real constructor of
// each pipeline makes its own.
func newSource() framework.Source {
	log := frameworktest.NewLog()
	log.Produce("words", 0, "to", "be")
	return frameworktest.NewSource(log)
}

// newSink closes the sink after the pipelines have drained: fx stops in the
// reverse order of construction.
func newSink(lc fx.Lifecycle) *memory.Sink[memory.Row] {
	sink := memory.NewStore[memory.Row]().Open(memory.Options[memory.Row]{})
	lc.Append(fx.StopHook(sink.Close))
	return sink
}

func newWords(source framework.Source, sink *memory.Sink[memory.Row]) (frameworkfx.Result, error) {
	rows := framework.Map(framework.From(codec.String()), func(w string) memory.Row {
		return memory.Row{Table: "words", Key: w, Value: w}
	})
	pipeline, err := framework.NewPipeline("words", rows)
	if err != nil {
		return frameworkfx.Result{}, err
	}
	return frameworkfx.New(pipeline, source, sink, framework.Config{})
}

// The pipelines start and drain with the application; a service asks *Pipelines
// for its health checks.
func Example() {
	var pipelines *frameworkfx.Pipelines
	app := fx.New(
		fx.NopLogger,
		frameworkfx.Module,
		fx.Provide(newSource, newSink, newWords),
		fx.Supply(slog.New(slog.DiscardHandler)),
		fx.Populate(&pipelines),
	)
	ctx := context.Background()
	if err := app.Start(ctx); err != nil { // a program that does nothing else calls app.Run()
		fmt.Println(err)
		return
	}
	fmt.Println("live:", pipelines.Live())
	fmt.Println("stopped:", app.Stop(ctx))
	// Output:
	// live: <nil>
	// stopped: <nil>
}
