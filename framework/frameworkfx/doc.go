// Package frameworkfx runs pipelines inside an fx application: they start with
// it, drain when it stops, and stop it when one of them fails for good.
//
// A constructor makes a pipeline with its own source, sink and settings, and
// returns a [Result], which puts it into the application; [Module] runs all that
// are there:
//
//	fx.New(
//		frameworkfx.Module,
//		fx.Provide(newSink, newSpending, newArchive),
//	).Run()
//
//	func newSpending(sink *sql.Sink) (frameworkfx.Result, error) {
//		…
//		return frameworkfx.New(pipeline, source, sink, framework.Config{})
//	}
//
// [Module] provides [*Pipelines], for health checks. It takes the application's
// *slog.Logger, where there is one, for pipelines whose Config.Logger is nil.
//
// A mistake is an error of fx.New, before anything starts: a part that is nil, a
// sink that guarantees too little, two pipelines of one name, no pipeline at all.
//
// Nothing here is needed to run pipelines: [framework.RunAll] does the same for
// a program without fx.
//
// # Starting
//
// The start hook returns at once. Whether brokers and database answer, and which
// partitions are assigned, shows in [Pipelines.Ready].
//
// # Stopping
//
// The stop hook cancels the pipelines and waits until they have drained: what
// was processed is saved, partitions are released, the source has left its group.
// It returns their errors, joined. A drain takes at most Config.DrainTimeout,
// which here defaults to [DrainTimeout], so that it ends within the 15 s that fx
// gives all hooks together; a program with a longer fx.StopTimeout may set a longer one
// for each pipeline. If fx's time is over first, the application stops with an error
// and the log names the pipelines. Nothing is lost then either: what was not saved is done again by the
// next owner.
//
// fx stops in the reverse order of construction. So a sink that its own
// constructor closes in a stop hook is closed after the pipelines have drained.
//
// # Failing
//
// When a pipeline fails for good the others are drained and the application is
// shut down with exit code 1. Stop returns the error, and it is logged before.
package frameworkfx
