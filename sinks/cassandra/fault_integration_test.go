//go:build integration

package cassandra

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/codec"
	"github.com/lockstep-stream/lockstep/framework/frameworktest"
	faults "github.com/lockstep-stream/lockstep/integration/proxy"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// lastValue is the last value of a topic's one key.
type lastValue struct {
	Topic string `cql:"topic,partition"`
	Value *int64 `cql:"value"`
}

var lastValues = NewTable[lastValue]("last_values")

const lastValuesSchema = "CREATE TABLE IF NOT EXISTS last_values (topic text PRIMARY KEY, value bigint)"

// keepLast is a pipeline that stores each record's value in place of the one
// before, and removes it for "delete".
func keepLast(t *testing.T) *framework.Pipeline[Write] {
	t.Helper()
	rows := framework.MapErr(framework.From(codec.String()), func(ctx framework.Context, text string) (Write, error) {
		if text == "delete" {
			return lastValues.Delete(lastValue{Topic: ctx.Topic()}), nil
		}
		n, err := strconv.ParseInt(text, 10, 64)
		return lastValues.Upsert(lastValue{Topic: ctx.Topic(), Value: &n}), err
	})
	p, err := framework.NewPipeline("keep-last", rows)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Neither the records' time, nor the size of a value, nor a clock that stands still
// or is set back decides which of two writes of a row is the later one: offsets do.
func TestTheRecordThatCameLastWinsWhateverTheClockSays(t *testing.T) {
	cfg, session := migrated(t, lastValuesSchema)
	cfg.Tables = []AnyTable{lastValues}
	for name, step := range map[string]time.Duration{"stuck": 0, "set back": -time.Second} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			var saves atomic.Int64
			c := systemClock()
			c.now = func() time.Time { return began.Add(time.Duration(saves.Load()) * step) }
			s, err := open(t.Context(), *cfg, c, defaultTuning())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close(context.Background())
			for records, want := range map[int][]string{1: {"9", "1", "5", "none", "7"}, 5: {"7"}} {
				topic := name + strconv.Itoa(records)
				log := frameworktest.NewLog()
				for _, value := range []string{"9", "1", "5", "delete", "7"} {
					log.Append(topic, 0, framework.Record{Offset: -1, Timestamp: time.UnixMilli(1000), Value: []byte(value)})
				}
				var got []string
				runner := newRunner(t, keepLast(t), log, s, framework.Config{BatchRecords: records, Hooks: framework.Hooks{Saved: func(framework.SavedEvent) {
					saves.Add(1)
					got = append(got, lastOf(t, session, topic))
				}}})
				if err := frameworktest.RunUntilSaved(t.Context(), runner, log); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got, want) {
					t.Errorf("%d records a batch: after each save the value was %q, want %q", records, got, want)
				}
			}
		})
	}
}

func lastOf(t *testing.T, session *gocql.Session, topic string) string {
	t.Helper()
	var value *int64
	err := session.Query("SELECT value FROM last_values WHERE topic = ?", topic).Scan(&value)
	switch {
	case errors.Is(err, gocql.ErrNotFound), err == nil && value == nil:
		return "none"
	case err != nil:
		t.Error(err)
		return "?"
	default:
		return strconv.FormatInt(*value, 10)
	}
}

func newRunner(t *testing.T, p *framework.Pipeline[Write], log *frameworktest.Log, s *Sink, config framework.Config) *framework.Runner {
	t.Helper()
	config.Logger = slog.New(slog.DiscardHandler)
	runner, err := framework.NewRunner(p, frameworktest.NewSource(log), s, config)
	if err != nil {
		t.Fatal(err)
	}
	return runner
}

// When it cannot be found out in time whether a batch was saved the pipeline ends
// and says so, and the next start takes up exactly what was.
func TestAnOutcomeThatStaysUnknownEndsThePipelineAndLosesNothing(t *testing.T) {
	cfg, session := migrated(t, lastValuesSchema)
	cfg.Tables = []AnyTable{lastValues}
	for name, fate := range map[string]faults.Action{"applied": faults.Replace(faults.CASTimeout()), "lost": faults.Forge(faults.CASTimeout())} {
		t.Run(name, func(t *testing.T) {
			log := frameworktest.NewLog()
			log.Produce(name, 0, "1", "2")
			p := newProxy(t, cfg.Hosts[0])
			broken := *cfg
			broken.Hosts = []string{p.Addr()}
			tu := defaultTuning()
			tu.unknownLimit = 500 * time.Millisecond
			s, err := open(t.Context(), broken, systemClock(), tu)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close(context.Background())
			config := framework.Config{RecoverWithin: time.Millisecond}
			if err := frameworktest.RunUntilSaved(t.Context(), newRunner(t, keepLast(t), log, s, config), log); err != nil {
				t.Fatal(err)
			}
			p.arm(fate, faults.Forge(faults.ReadTimeout()))
			log.Produce(name, 0, "3", "4")
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			err = newRunner(t, keepLast(t), log, s, config).Run(ctx)
			if ctx.Err() != nil || !errors.Is(err, framework.ErrUnknown) {
				t.Fatalf("Run returned %v (%v); want it to end by itself with %v", err, ctx.Err(), framework.ErrUnknown)
			}
			p.heal()
			if err := frameworktest.RunUntilSaved(t.Context(), newRunner(t, keepLast(t), log, s, framework.Config{}), log); err != nil {
				t.Fatal(err)
			}
			if got := lastOf(t, session, name); got != "4" {
				t.Errorf("after the restart the value is %s, want 4", got)
			}
			wantLanePosition(t, s, name, 4)
		})
	}
}

func wantLanePosition(t *testing.T, s *Sink, topic string, want int64) {
	t.Helper()
	positions, err := s.Positions(t.Context(), "keep-last")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range positions {
		if p.TopicPartition == (offsetstore.TopicPartition{Topic: topic}) {
			if p.Position.Offset != want {
				t.Errorf("%s is at %d, want %d", topic, p.Position.Offset, want)
			}
			return
		}
	}
	t.Errorf("%s has no position", topic)
}
