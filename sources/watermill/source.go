package watermill

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Origin is where a message stands, and what else its broker knows of it.
type Origin struct {
	Topic     string // "" means the one that was subscribed to
	Partition int32
	Offset    int64     // rises within a partition
	Timestamp time.Time // optional
	Key       []byte    // optional
}

// Extractor finds out where a message of a subscription stands. Its error ends
// the source; the message is not acknowledged.
type Extractor func(topic string, m *message.Message) (Origin, error)

// Config describes a source over any Watermill subscriber.
type Config struct {
	// Subscriber delivers the messages. It stays the caller's, who closes it after
	// the source has ended. For watermill-kafka use [NewKafka]. Required.
	Subscriber message.Subscriber
	// Topics are subscribed to, each once. Required.
	Topics []string
	// Extract tells topic, partition and offset of a message. Required.
	Extract Extractor
	// StartWait is how long Run tries to subscribe before it gives up with
	// [framework.ErrUnavailable]. Defaults to 1 min.
	StartWait time.Duration
	// Logger receives what the source has to say. Defaults to slog.Default().
	Logger watermill.LoggerAdapter
}

func (c *Config) validate() error {
	switch _, ours := c.Subscriber.(*kafka.Subscriber); {
	case isNil(c.Subscriber):
		return configError("watermill.Config.Subscriber is nil; give the subscriber to read from")
	case ours:
		return configError("watermill.Config.Subscriber is a *kafka.Subscriber of watermill-kafka, which goes on where its group has committed; use watermill.NewKafka, which starts each partition where the sink says")
	case c.Extract == nil:
		return configError("watermill.Config.Extract is nil; give a function that tells topic, partition and offset of a %T's messages", c.Subscriber)
	case len(c.Topics) == 0:
		return configError("watermill.Config.Topics is empty; name the topics to subscribe to")
	}
	seen := map[string]bool{}
	for _, topic := range c.Topics {
		if strings.TrimSpace(topic) == "" || seen[topic] {
			return configError("watermill.Config.Topics has %q, empty or twice", topic)
		}
		seen[topic] = true
	}
	return checkTime("watermill.Config.StartWait", c.StartWait)
}

// isNil also finds a nil pointer within the interface.
func isNil(s message.Subscriber) bool {
	v := reflect.ValueOf(s)
	return s == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// Source reads any Watermill subscriber. Create it with [New].
type Source struct {
	cfg  Config
	log  *slog.Logger
	used atomic.Bool
}

var _ framework.Source = (*Source)(nil)

// New returns a source over cfg.Subscriber, or an error that wraps
// [framework.ErrConfig] and names the field at fault. It subscribes to nothing.
func New(cfg Config) (*Source, error) {
	setDefault(&cfg.StartWait, time.Minute)
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	log, _ := loggers(cfg.Logger)
	return &Source{cfg: cfg, log: log}, nil
}

// Run subscribes and reports to lanes until ctx is cancelled. It runs once.
//
// Otherwise it returns an error that wraps [framework.ErrUnavailable] if the
// subscriber refused to subscribe for StartWait or closed its channel by itself,
// [ErrNoPosition] for a message that does not say where it stands, or
// [framework.ErrOrder] for one that a later one of its partition has passed by.
func (s *Source) Run(ctx context.Context, lanes framework.Lanes) error {
	if s.used.Swap(true) {
		return fmt.Errorf("watermill source: Run was called before: %w", framework.ErrClosed)
	}
	r := &reading{cfg: s.cfg, log: s.log, lanes: lanes, parts: map[offsetstore.TopicPartition]*held{}, failed: make(chan error, 1)}
	return r.run(ctx)
}

// reading is one Run over a subscriber.
type reading struct {
	cfg    Config
	log    *slog.Logger
	lanes  framework.Lanes
	failed chan error     // why Run must end
	wg     sync.WaitGroup // readers and pumps

	mu     sync.Mutex
	parts  map[offsetstore.TopicPartition]*held
	ending bool
}

func (r *reading) run(ctx context.Context) error {
	subscribed, unsubscribe := context.WithCancel(context.WithoutCancel(ctx))
	defer unsubscribe()
	err := r.subscribe(ctx, subscribed)
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-r.failed:
		}
	}
	r.revoke()
	unsubscribe()
	r.nackAll()
	r.wg.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// subscribe subscribes to all topics, and tries again for as long as StartWait.
func (r *reading) subscribe(ctx, subscribed context.Context) error {
	began := time.Now()
	for _, topic := range r.cfg.Topics {
		pause := slow()
		for {
			messages, err := r.cfg.Subscriber.Subscribe(subscribed, topic)
			if err == nil {
				r.wg.Go(func() { r.read(topic, messages) })
				break
			}
			if time.Since(began) >= r.cfg.StartWait {
				return fmt.Errorf("watermill source: %w: %T did not subscribe to %q within %v: %w", framework.ErrUnavailable, r.cfg.Subscriber, topic, r.cfg.StartWait, err)
			}
			r.log.Warn("could not subscribe; trying again", "topic", topic, "error", err)
			if err := sleep(ctx, pause.NextBackOff()); err != nil {
				return err
			}
		}
	}
	r.lanes.Assigned(nil) // a partition shows by its first message
	return nil
}

// read takes messages until the channel is closed.
func (r *reading) read(topic string, messages <-chan *message.Message) {
	for m := range messages {
		if err := r.receive(topic, m); err != nil {
			r.fail(err)
			m.Nack()
		}
	}
	if !r.isEnding() {
		r.fail(fmt.Errorf("watermill source: %w: %T has closed its channel for %q", framework.ErrUnavailable, r.cfg.Subscriber, topic))
	}
}

// receive hands a message to its partition. A partition is assigned with its
// first message, which is how a subscriber tells of it.
func (r *reading) receive(topic string, m *message.Message) error {
	o, err := r.cfg.Extract(topic, m)
	if err == nil && (o.Partition < 0 || o.Offset < 0) {
		err = fmt.Errorf("partition %d, offset %d", o.Partition, o.Offset)
	}
	if err != nil {
		return refused(fmt.Errorf("%w: message %q from %T, topic %q: %w; correct watermill.Config.Extract, or use a subscriber whose messages tell topic, partition and offset",
			ErrNoPosition, m.UUID, r.cfg.Subscriber, topic, err))
	}
	if o.Topic == "" {
		o.Topic = topic
	}
	return r.partition(offsetstore.TopicPartition{Topic: o.Topic, Partition: o.Partition}, func(p *held) error { return p.add(o, m) }, m.Nack)
}

// partition calls add with a partition, which is assigned afterwards if it is a
// new one, or refuse once the run is ending.
func (r *reading) partition(tp offsetstore.TopicPartition, add func(*held) error, refuse func() bool) error {
	r.mu.Lock()
	defer r.mu.Unlock() // so that no assignment follows the end
	if r.ending {
		refuse()
		return nil
	}
	if p := r.parts[tp]; p != nil {
		return add(p)
	}
	p := newHeld(r, tp)
	r.parts[tp] = p
	r.wg.Go(p.pump)
	defer r.lanes.Assigned([]framework.Partition{p})
	return add(p)
}

func (r *reading) fail(err error) {
	select {
	case r.failed <- err:
	default: // the first counts
	}
}

func (r *reading) isEnding() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ending
}

// revokeTime bounds how long lanes may take to finish. Nobody else waits for the
// partitions in a way that we could know of.
const revokeTime = time.Minute

// revoke gives every partition up in order.
func (r *reading) revoke() {
	r.mu.Lock()
	r.ending = true
	var ps []framework.Partition
	for _, p := range r.parts {
		ps = append(ps, p)
	}
	r.mu.Unlock()
	if len(ps) == 0 {
		return
	}
	for _, p := range r.parts {
		p.silence()
	}
	ctx, cancel := context.WithTimeout(context.Background(), revokeTime)
	defer cancel()
	r.lanes.Revoked(ctx, ps)
	for _, p := range r.parts {
		p.kill()
	}
}

// nackAll gives back what was not saved.
func (r *reading) nackAll() {
	for _, p := range r.parts {
		p.nack()
	}
}
