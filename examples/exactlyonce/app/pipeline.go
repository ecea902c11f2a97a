package app

import (
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/codec"
)

// Name is the pipeline's name: it finds the positions and totals in the sink.
const Name = "exactlyonce"

// Pipeline is the whole job, for any sink. W is what the sink writes, and the
// two functions turn a row into it: they are all that differs between sinks.
//
//	events ─┬───────────────────────────────────────► events
//	        └─ filter ─ map ─ reduceByKey ──────────► alerts
//
// Both branches commit with one offset.
func Pipeline[W any](saveEvent func(EventRow) W, saveAlert func(AlertRow) W) (*framework.Pipeline[W], error) {
	events := framework.From(codec.JSON[Event]())
	rows := framework.MapErr(events, func(ctx framework.Context, e Event) (W, error) {
		return saveEvent(eventRow(ctx, e)), nil
	}, framework.Named("event-row"))

	sick := framework.Filter(events, func(e Event) bool { return e.Health < LowHealth }, framework.Named("low-health"))
	counts := framework.ReduceByKey("alerts", framework.Map(sick, one, framework.Named("to-minute")), add,
		framework.KeyCodec[SourceMinute, int64](codec.JSON[SourceMinute]()),
		framework.StateCodec[SourceMinute](codec.Int64()))
	alerts := framework.MapErr(counts, func(ctx framework.Context, c Count) (W, error) {
		return saveAlert(alertRow(ctx, c)), nil
	}, framework.Named("alert-row"))

	return framework.NewPipeline(Name, framework.Merge(rows, alerts))
}

// Count is a number of alerts of one source within one minute.
type Count = framework.Keyed[SourceMinute, int64]

func one(e Event) Count {
	minute := time.UnixMilli(e.TS).Truncate(time.Minute).UnixMilli()
	return Count{Key: SourceMinute{Source: e.Source, Minute: minute}, Value: 1}
}

func add(a, b int64) int64 { return a + b }
