package generate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/examples/exactlyonce/app"
	"github.com/lockstep-stream/lockstep/framework"
)

// Producer writes events to one topic. Make it with [Connect].
type Producer struct {
	topic  string
	client *kgo.Client
	admin  *kadm.Client
}

// Connect returns a producer once a broker answers. Brokers that are not up yet
// are waited for, at most wait; then the error matches
// [framework.ErrUnavailable].
func Connect(ctx context.Context, brokers []string, topic string, wait time.Duration, log *slog.Logger) (*Producer, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...),
		kgo.ClientID("exactlyonce-generator"),
		kgo.DefaultProduceTopic(topic),
		kgo.ProducerLinger(5*time.Millisecond),
	)
	if err != nil {
		return nil, fmt.Errorf("--brokers: %w: %w", framework.ErrConfig, err)
	}
	p := &Producer{topic: topic, client: client, admin: kadm.NewClient(client)}
	if err := p.await(ctx, wait, log); err != nil {
		client.Close()
		return nil, err
	}
	return p, nil
}

// await returns when a broker answers.
func (p *Producer) await(ctx context.Context, wait time.Duration, log *slog.Logger) error {
	waitCtx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for tries := 0; ; tries++ {
		err := p.client.Ping(waitCtx)
		if err == nil {
			return nil
		}
		if tries%10 == 0 {
			log.Info("waiting for Kafka", "brokers", p.client.OptValue(kgo.SeedBrokers), "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-waitCtx.Done():
			return fmt.Errorf("no Kafka broker answered within %v; start one with docker compose up, or correct --brokers: %w: %w", wait, framework.ErrUnavailable, err)
		case <-time.After(time.Second):
		}
	}
}

// CreateTopic creates the topic unless it exists.
func (p *Producer) CreateTopic(ctx context.Context) error {
	const brokersDefault = -1
	_, err := p.admin.CreateTopic(ctx, app.Partitions, brokersDefault, nil, p.topic)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("creating topic %q: %w", p.topic, err)
	}
	return nil
}

// Records returns how many offsets the topic's log ends cover, over all
// partitions: 0 for a topic that was never written to.
func (p *Producer) Records(ctx context.Context) (int64, error) {
	for tries := 0; ; tries++ {
		ends, err := p.admin.ListEndOffsets(ctx, p.topic)
		if err == nil {
			err = ends.Error()
		}
		if err == nil {
			var n int64
			ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
			return n, nil
		}
		// A topic made just now may have no leaders yet.
		if !kerr.IsRetriable(err) || tries == 20 {
			return 0, fmt.Errorf("reading the ends of topic %q: %w", p.topic, err)
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// Produce writes n events, at most rate a second (0: as fast as possible), and
// returns when all are acknowledged, or with the first error. Each event is
// written once, and wrote is called with where it is, by one goroutine at a time
// and never after Produce has returned.
func (p *Producer) Produce(ctx context.Context, n, rate int, next func() app.Event, wrote func(partition int32, offset int64, e app.Event)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	acks := acks{wrote: wrote, fail: cancel}
	defer acks.end()
	for i, pace := 0, newPace(rate); i < n && pace.wait(ctx, i); i++ {
		e := next()
		value, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("event %d: %w", e.ID, err)
		}
		// By client, so that a source's alerts come from all partitions.
		p.client.Produce(ctx, &kgo.Record{Key: []byte(e.Client), Value: value}, func(r *kgo.Record, err error) {
			acks.add(r, e, err)
		})
	}
	if err := p.client.Flush(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("writing to topic %q: %w", p.topic, err)
	}
	return context.Cause(ctx)
}

// acks receives what became of each event.
type acks struct {
	mu    sync.Mutex
	ended bool
	wrote func(partition int32, offset int64, e app.Event)
	fail  context.CancelCauseFunc
}

func (a *acks) add(r *kgo.Record, e app.Event, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.ended:
	case err != nil:
		a.fail(fmt.Errorf("writing event %d to topic %q: %w", e.ID, r.Topic, err))
	default:
		a.wrote(r.Partition, r.Offset, e)
	}
}

// end drops what comes later: after an error nobody waits for the rest.
func (a *acks) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
}

// Close closes the connections.
func (p *Producer) Close() { p.client.Close() }

// pace spreads events over time, in steps of a hundredth of a second.
type pace struct {
	rate  int
	start time.Time
}

func newPace(rate int) pace { return pace{rate: rate, start: time.Now()} }

// wait returns true when the i-th event is due, or false when ctx has ended.
func (p pace) wait(ctx context.Context, i int) bool {
	if p.rate <= 0 {
		return ctx.Err() == nil
	}
	ahead := time.Until(p.start.Add(time.Duration(float64(i) / float64(p.rate) * float64(time.Second))))
	if ahead < 10*time.Millisecond {
		return ctx.Err() == nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(ahead):
		return true
	}
}
