package watermill

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// KafkaSource reads Kafka by watermill-kafka. Create it with [NewKafka].
type KafkaSource struct {
	cfg  KafkaConfig
	used atomic.Bool
}

// NewKafka returns a source for cfg, or an error that wraps
// [framework.ErrConfig] and names the field at fault. It connects to nothing.
func NewKafka(cfg KafkaConfig) (*KafkaSource, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &KafkaSource{cfg: cfg}, nil
}

// Run joins the group and reports to lanes until ctx is cancelled, then leaves
// and returns nil. It runs once.
//
// Otherwise it returns an error that wraps [framework.ErrUnavailable] if no
// broker answered within StartWait, or [framework.ErrConfig] for what waiting
// cannot mend: a refused login, a missing topic, missing rights.
func (s *KafkaSource) Run(ctx context.Context, lanes framework.Lanes) error {
	if s.used.Swap(true) {
		return fmt.Errorf("watermill source: Run was called before: %w", framework.ErrClosed)
	}
	log, words := loggers(s.cfg.Logger)
	r := &run{
		cfg: s.cfg, config: own(s.cfg.Subscriber.OverwriteSaramaConfig), lanes: lanes, log: log.With("group", s.cfg.Subscriber.ConsumerGroup), words: words,
		parts: map[offsetstore.TopicPartition]*partition{}, mirrors: make(chan struct{}, 1), failed: make(chan error, 1),
	}
	err := r.run(ctx)
	if ctx.Err() != nil {
		err = nil // whatever it was, we were asked to end
	}
	return err
}

// run is one Run. Four parties work on it: sarama's group goroutines
// (kafka_session.go), one goroutine a partition that feeds the subscriber
// (kafka_feed.go), one a topic that takes what comes out of it (receive), and
// whoever calls the methods of a partition.
type run struct {
	cfg      KafkaConfig
	config   *sarama.Config // of client
	lanes    framework.Lanes
	log      *slog.Logger
	words    watermill.LoggerAdapter // the subscriber's logger
	client   sarama.Client           // asks; a request never waits behind a fetch
	consumer sarama.Consumer         // reads, over connections of its own
	brokers  sync.Map                // every *sarama.Broker of client that was asked
	broken   sync.Map                // *message.Message to the Unmarshaler's error

	ctx      context.Context // ends when the subscriber has ended
	stay     context.Context // ends when we are about to leave the group
	leaveNow context.CancelFunc
	failed   chan error    // why Run must end
	mirrors  chan struct{} // a position waits to be mirrored
	commits  sync.Mutex    // one commit at a time, so that no older one follows a newer
	wg       sync.WaitGroup

	mu      sync.Mutex
	parts   map[offsetstore.TopicPartition]*partition
	leaving bool // nothing is assigned any more
	ended   bool // no goroutine may be started any more
}

func (r *run) run(ctx context.Context) (err error) {
	if ctx.Err() != nil {
		return nil
	}
	var cancel context.CancelFunc
	r.ctx, cancel = context.WithCancel(context.WithoutCancel(ctx))
	r.stay, r.leaveNow = context.WithCancel(r.ctx)
	defer r.end(cancel)
	if err := r.connect(ctx); err != nil {
		return err
	}
	r.wg.Go(r.mirrorLoop)
	return r.read(ctx)
}

// end waits until nothing of the run is left. Closing the client ends the
// requests that are under way.
func (r *run) end(cancel context.CancelFunc) {
	cancel()
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	if r.consumer != nil {
		_ = r.consumer.Close() // there is nothing to be done about it
	}
	if r.client != nil {
		_ = r.client.Close() // there is nothing to be done about it
	}
	r.wg.Wait()
	// Where several goroutines meet a broker that fails, sarama opens some that it
	// has forgotten.
	r.brokers.Range(func(b, _ any) bool {
		_ = b.(*sarama.Broker).Close() // it is closed, unless it was forgotten
		return true
	})
}

// connect waits until the servers answer and know every topic. Servers are
// waited for as long as StartWait, topics as long as TopicWait.
func (r *run) connect(ctx context.Context) error {
	began, pause := time.Now(), slow()
	for {
		err := r.dial()
		if err == nil {
			break
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case hopeless(err) != "":
			return explain(err)
		case time.Since(began) >= r.cfg.StartWait:
			return fmt.Errorf("watermill source: %w: no usable answer from %s within %v: %w; %s",
				framework.ErrUnavailable, strings.Join(r.cfg.Subscriber.Brokers, ", "), r.cfg.StartWait, err, advice(err))
		}
		r.log.Warn("waiting for Kafka", "brokers", r.cfg.Subscriber.Brokers, "error", err)
		if err := sleep(ctx, pause.NextBackOff()); err != nil {
			return err
		}
	}
	for _, topic := range r.cfg.Topics {
		if _, err := retry(ctx, r, topic, func() (topicInfo, error) { return r.describe(topic) }); err != nil {
			return err
		}
	}
	return nil
}

// dial makes what is not there yet of both clients.
func (r *run) dial() (err error) {
	if r.client == nil {
		if r.client, err = sarama.NewClient(r.cfg.Subscriber.Brokers, r.config); err != nil {
			return err
		}
	}
	r.consumer, err = sarama.NewConsumer(r.cfg.Subscriber.Brokers, r.config)
	return err
}

// read subscribes to every topic until ctx ends or the run fails.
func (r *run) read(ctx context.Context) error {
	sub, err := r.newSubscriber()
	if err != nil {
		return refused(err)
	}
	var readers sync.WaitGroup
	defer readers.Wait()
	defer r.leave(sub)
	for _, topic := range r.cfg.Topics {
		messages, err := retry(ctx, r, topic, func() (<-chan *message.Message, error) { return sub.Subscribe(r.ctx, topic) })
		if err != nil {
			return err
		}
		readers.Go(func() {
			for m := range messages {
				r.receive(topic, m)
				m.Ack() // on receipt, since the sink holds the position
			}
		})
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-r.failed:
		return err
	}
}

// leave ends the group's sessions, which revokes the partitions.
func (r *run) leave(sub *kafka.Subscriber) {
	r.mu.Lock()
	r.leaving = true
	r.mu.Unlock()
	r.leaveNow()
	if err := sub.Close(); err != nil {
		r.log.Warn("closing the subscriber", "error", err)
	}
}

func (r *run) newSubscriber() (*kafka.Subscriber, error) {
	cfg := r.cfg.Subscriber
	if cfg.Tracer == nil && cfg.OTELEnabled { //nolint:staticcheck // services use it until it is gone
		cfg.Tracer = kafka.NewOTELSaramaTracer()
	}
	cfg.Tracer = &tracer{user: cfg.Tracer, r: r}
	cfg.Unmarshaler = unmarshaler{cfg.Unmarshaler, r}
	return kafka.NewSubscriber(cfg, listener{r.words, r})
}

// receive finds the record that a message came from, and delivers it.
func (r *run) receive(topic string, m *message.Message) {
	failure, _ := r.broken.LoadAndDelete(m)
	number, ok := kafka.MessagePartitionFromCtx(m.Context())
	offset, also := kafka.MessagePartitionOffsetFromCtx(m.Context())
	if !ok || !also {
		r.fail(refused(fmt.Errorf("%w: message %q of topic %q; a Tracer must not take the context's values away", ErrNoPosition, m.UUID, topic)))
		return
	}
	r.mu.Lock()
	p := r.parts[offsetstore.TopicPartition{Topic: topic, Partition: number}]
	r.mu.Unlock()
	if p != nil {
		err, _ := failure.(error)
		p.receive(m, offset, err)
	}
}

// fail ends the run with err.
func (r *run) fail(err error) {
	select {
	case r.failed <- err:
	default: // the first counts
	}
}

// spawn runs f in a goroutine that Run waits for, and reports whether it could.
func (r *run) spawn(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.wg.Go(f)
	}
	return !r.ended
}

// unmarshaler never fails, since watermill-kafka would end the session of the
// group at the record, and come back to it for ever.
type unmarshaler struct {
	kafka.Unmarshaler
	r *run
}

// Unmarshal implements kafka.Unmarshaler.
func (u unmarshaler) Unmarshal(k *sarama.ConsumerMessage) (*message.Message, error) {
	m, err := u.Unmarshaler.Unmarshal(k)
	if err == nil && m == nil {
		err = errors.New("it returned no message")
	}
	if err != nil {
		m = message.NewMessage("", nil)
		u.r.broken.Store(m, err)
	}
	return m, nil
}

// listener is the subscriber's logger. It is the only one to hear of errors of
// the group that waiting cannot mend: the subscriber tries again for ever.
type listener struct {
	watermill.LoggerAdapter
	r *run
}

// Error implements watermill.LoggerAdapter.
func (l listener) Error(msg string, err error, fields watermill.LogFields) {
	if hopeless(err) != "" {
		l.r.fail(explain(err))
	}
	l.LoggerAdapter.Error(msg, err, fields)
}

// With implements watermill.LoggerAdapter.
func (l listener) With(fields watermill.LogFields) watermill.LoggerAdapter {
	return listener{l.LoggerAdapter.With(fields), l.r}
}
