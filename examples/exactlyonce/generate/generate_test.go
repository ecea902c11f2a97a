package generate

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/lockstep-stream/lockstep/examples/exactlyonce/app"
	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/codec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const step = 10 * time.Millisecond

var quiet = slog.New(slog.DiscardHandler)

func setup(t *testing.T) (*Producer, []string) {
	t.Helper()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	p, err := Connect(t.Context(), broker.ListenAddrs(), "events", time.Minute, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	if err := p.CreateTopic(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p, broker.ListenAddrs()
}

func TestEventsAreAlikeForOneSeed(t *testing.T) {
	at := time.UnixMilli(1_767_323_045_678)
	a, b, other := NewGenerator(1, 7, at, step), NewGenerator(1, 7, at, step), NewGenerator(2, 7, at, step)
	low, differs := 0, false
	for i := range int64(10_000) {
		e := a.Next()
		if e != b.Next() {
			t.Fatalf("event %d differs between two generators of one seed", i)
		}
		differs = differs || e != other.Next()
		if e.ID != 7+i || e.TS != at.UnixMilli()+i*step.Milliseconds() || e.Health < 0 || e.Health > 99 {
			t.Fatalf("event %d is %+v", i, e)
		}
		if e.Health < app.LowHealth {
			low++
		}
	}
	if !differs {
		t.Error("two seeds gave equal events")
	}
	if low < 800 || low > 1200 {
		t.Errorf("%d of 10,000 events have low health, want about one in ten", low)
	}
}

// TestEveryEventIsWhereTheProducerSaysItIs reads the topic with a plain client.
func TestEveryEventIsWhereTheProducerSaysItIs(t *testing.T) {
	const events = 2000
	p, brokers := setup(t)
	type place struct {
		partition int32
		offset    int64
	}
	wrote := map[place]app.Event{}
	g := NewGenerator(1, 0, time.Now(), step)
	err := p.Produce(t.Context(), events, 0, g.Next, func(partition int32, offset int64, e app.Event) {
		wrote[place{partition, offset}] = e
	})
	if err != nil || len(wrote) != events {
		t.Fatalf("Produce: %v, %d events acknowledged, want %d", err, len(wrote), events)
	}
	if n, err := p.Records(t.Context()); err != nil || n != events {
		t.Errorf("Records() = %d, %v, want %d", n, err, events)
	}

	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics("events"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var partitions []int32
	for read := 0; read < events; {
		fetches := cl.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			read++
			var e app.Event
			if err := codec.JSON[app.Event]().Decode(r.Value, &e); err != nil {
				t.Fatal(err)
			}
			if want := wrote[place{r.Partition, r.Offset}]; e != want {
				t.Errorf("at %d@%d is %+v, the producer said %+v", r.Partition, r.Offset, e, want)
			}
			if !slices.Contains(partitions, r.Partition) {
				partitions = append(partitions, r.Partition)
			}
		})
	}
	if len(partitions) != app.Partitions {
		t.Errorf("events are on partitions %v, want all %d", partitions, app.Partitions)
	}
}

func TestCreateTopicLeavesAnExistingTopicAlone(t *testing.T) {
	p, _ := setup(t)
	if err := p.CreateTopic(t.Context()); err != nil {
		t.Errorf("second CreateTopic: %v", err)
	}
}

func TestProduceKeepsTheRate(t *testing.T) {
	p, _ := setup(t)
	start := time.Now()
	g := NewGenerator(1, 0, start, step)
	if err := p.Produce(t.Context(), 101, 500, g.Next, func(int32, int64, app.Event) {}); err != nil {
		t.Fatal(err)
	}
	// The last event is due after 200 ms. Slower is the machine's business.
	if took := time.Since(start); took < 180*time.Millisecond {
		t.Errorf("101 events at 500 a second took %v", took)
	}
}

func TestProduceEndsWithItsContext(t *testing.T) {
	p, _ := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	g := NewGenerator(1, 0, time.Now(), step)
	err := p.Produce(ctx, 1_000_000, 100, g.Next, func(int32, int64, app.Event) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Produce after a cancel: %v", err)
	}
}

func TestProduceReportsATopicThatIsMissing(t *testing.T) {
	_, brokers := setup(t)
	p, err := Connect(t.Context(), brokers, "missing", time.Minute, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	g := NewGenerator(1, 0, time.Now(), step)
	err = p.Produce(t.Context(), 1, 0, g.Next, func(int32, int64, app.Event) { t.Error("acknowledged") })
	if err == nil {
		t.Error("writing to a topic that does not exist succeeded")
	}
}

func TestConnectGivesUpAfterItsWait(t *testing.T) {
	_, err := Connect(t.Context(), []string{"127.0.0.1:1"}, "events", 50*time.Millisecond, quiet)
	if !errors.Is(err, framework.ErrUnavailable) {
		t.Errorf("no broker: %v, want ErrUnavailable", err)
	}
}
