package app_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockstep-stream/lockstep/examples/exactlyonce/app"
	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/frameworktest"
	"github.com/lockstep-stream/lockstep/sinks/memory"
)

// TestMain makes the test program a stubborn one for the test of signals.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "stubborn" {
		app.Main(func(ctx context.Context, _ []string) error {
			fmt.Println("running")
			<-ctx.Done()
			fmt.Println("draining")
			select {}
		})
	}
	goleak.VerifyTestMain(m)
}

// memoryPipeline is the example's pipeline for the sink in memory.
func memoryPipeline(t *testing.T) *framework.Pipeline[memory.Row] {
	t.Helper()
	p, err := app.Pipeline(
		func(e app.EventRow) memory.Row {
			return memory.Row{Table: "events", Key: fmt.Sprintf("%s/%d@%d", e.Topic, e.Partition, e.Offset), Value: e}
		},
		func(a app.AlertRow) memory.Row {
			return memory.Row{Table: "alerts", Key: fmt.Sprintf("%s %s %s/%d", a.Source, a.TS.Format("15:04"), a.Topic, a.Partition), Value: a.EventCount}
		})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// runToEnd runs the pipeline once over log, as one process would.
func runToEnd(t *testing.T, log *frameworktest.Log, store *memory.Store[memory.Row]) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sink := store.Open(memory.Options[memory.Row]{})
	defer sink.Close(context.Background())
	r, err := framework.NewRunner(memoryPipeline(t), frameworktest.NewSource(log), sink, framework.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return frameworktest.RunUntilSaved(ctx, r, log)
}

func value(id int, at string, source string, health int) string {
	ts, err := time.Parse(time.TimeOnly, at)
	if err != nil {
		panic(err)
	}
	ms := time.Date(2026, 1, 2, ts.Hour(), ts.Minute(), ts.Second(), 0, time.UTC).UnixMilli()
	return fmt.Sprintf(`{"id":%d,"ts":%d,"source":%q,"client":"c","health":%d}`, id, ms, source, health)
}

func TestEventsAndAlertsAreSaved(t *testing.T) {
	log, store := frameworktest.NewLog(), memory.NewStore[memory.Row]()
	log.Produce("in", 0,
		value(1, "10:00:00", "a", 9),
		value(2, "10:00:59", "a", 0),
		value(3, "10:00:59", "a", 10), // not low
		value(4, "10:01:00", "a", 5),
		value(5, "10:00:30", "b", 1))
	log.Produce("in", 1, value(6, "10:00:10", "a", 3))
	if err := runToEnd(t, log, store); err != nil {
		t.Fatal(err)
	}

	events := memory.Rows(store, "events")
	if len(events) != 6 {
		t.Errorf("%d events are saved, want 6", len(events))
	}
	want := app.EventRow{Topic: "in", Partition: 0, Offset: 1, ID: 2, TS: time.Date(2026, 1, 2, 10, 0, 59, 0, time.UTC), Source: "a", Client: "c", Health: 0}
	if got := events["in/0@1"]; got != want {
		t.Errorf("in/0@1 is %+v, want %+v", got, want)
	}
	wantAlerts := map[string]any{
		"a 10:00 in/0": int64(2), "a 10:01 in/0": int64(1), "b 10:00 in/0": int64(1),
		"a 10:00 in/1": int64(1), // a count of its own, beside in/0's
	}
	if got := memory.Rows(store, "alerts"); !maps.Equal(got, wantAlerts) {
		t.Errorf("alerts %v, want %v", got, wantAlerts)
	}
}

func TestAlertsGoOnFromTheSavedTotals(t *testing.T) {
	log, store := frameworktest.NewLog(), memory.NewStore[memory.Row]()
	for i := range 5 {
		log.Produce("in", 0, value(i, "10:00:00", "a", 1))
		if err := runToEnd(t, log, store); err != nil {
			t.Fatal(err)
		}
	}
	if got := memory.Rows(store, "alerts")["a 10:00 in/0"]; got != int64(5) {
		t.Errorf("after five runs of one event each the total is %v, want 5", got)
	}
}

func TestABrokenEventStopsThePipelineAndIsNamed(t *testing.T) {
	log, store := frameworktest.NewLog(), memory.NewStore[memory.Row]()
	log.Produce("in", 0, value(1, "10:00:00", "a", 50), `{"id":"two"}`)
	err := runToEnd(t, log, store)
	var record *framework.RecordError
	if !errors.As(err, &record) || record.Offset != 1 || record.Stage != "decode" || !strings.Contains(err.Error(), "in/0@1") {
		t.Errorf("got %v, want a *RecordError of decode at in/0@1", err)
	}
	if rows := memory.Rows(store, "events"); len(rows) != 1 {
		t.Errorf("%d events are saved, want the one before", len(rows))
	}
}
