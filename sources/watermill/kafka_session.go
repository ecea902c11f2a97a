package watermill

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// tracer is how we get between sarama and the subscriber.
type tracer struct {
	user  kafka.SaramaTracer // nil: none
	r     *run
	calls atomic.Int32
}

// WrapConsumerGroupHandler implements kafka.SaramaTracer. It is called for each
// topic, and again whenever the subscriber connects anew, which it does without
// rest while the group cannot be joined.
func (t *tracer) WrapConsumerGroupHandler(h sarama.ConsumerGroupHandler) sarama.ConsumerGroupHandler {
	if int(t.calls.Add(1)) > len(t.r.cfg.Topics) {
		_ = sleep(t.r.stay, reconnectPause) // whether it is over or not, the subscriber looks
	}
	if t.user != nil {
		h = t.user.WrapConsumerGroupHandler(h)
	}
	return &handler{inner: h, r: t.r}
}

const reconnectPause = time.Second

// The others are for subscribers without a group, and for producers.

// WrapConsumer implements kafka.SaramaTracer.
func (t *tracer) WrapConsumer(c sarama.Consumer) sarama.Consumer { return c }

// WrapPartitionConsumer implements kafka.SaramaTracer.
func (t *tracer) WrapPartitionConsumer(c sarama.PartitionConsumer) sarama.PartitionConsumer { return c }

// WrapSyncProducer implements kafka.SaramaTracer.
func (t *tracer) WrapSyncProducer(_ *sarama.Config, p sarama.SyncProducer) sarama.SyncProducer {
	return p
}

// handler stands before the subscriber's own. Sessions of a handler follow one
// another.
type handler struct {
	inner   sarama.ConsumerGroupHandler
	r       *run
	session *session
}

// Setup implements sarama.ConsumerGroupHandler.
func (h *handler) Setup(s sarama.ConsumerGroupSession) error {
	h.session = newSession(h.r, s)
	if err := h.inner.Setup(quiet{s, h.session.ctx}); err != nil {
		return err
	}
	for topic, numbers := range s.Claims() {
		for _, n := range numbers {
			// What the group has committed must not keep sarama's own claim from
			// starting, though nothing is read from it. This is not committed.
			s.ResetOffset(topic, n, -1, "")
		}
	}
	h.session.begin(s.Claims())
	return nil
}

// ConsumeClaim implements sarama.ConsumerGroupHandler: the subscriber is given a
// claim whose messages are those that our own consumer reads where the lane says.
func (h *handler) ConsumeClaim(s sarama.ConsumerGroupSession, c sarama.ConsumerGroupClaim) error {
	p := h.session.find(offsetstore.TopicPartition{Topic: c.Topic(), Partition: c.Partition()})
	if p == nil {
		<-h.session.ctx.Done() // the run is ending
		return nil
	}
	if own, ok := c.(interface{ AsyncClose() }); ok {
		own.AsyncClose() // sarama's consumer of the claim; it is replaced
	}
	ctx, stop := context.WithCancel(h.session.ctx)
	out := make(chan *sarama.ConsumerMessage)
	var feeding sync.WaitGroup
	feeding.Go(func() {
		defer close(out)
		p.feed(ctx, out)
	})
	err := h.inner.ConsumeClaim(quiet{s, ctx}, claim{c, out})
	stop()
	feeding.Wait()
	return err
}

// Cleanup implements sarama.ConsumerGroupHandler. The group waits for it.
func (h *handler) Cleanup(s sarama.ConsumerGroupSession) error {
	h.session.end()
	return h.inner.Cleanup(quiet{s, h.session.ctx})
}

// claim is a claim with other messages.
type claim struct {
	sarama.ConsumerGroupClaim
	messages <-chan *sarama.ConsumerMessage
}

// Messages implements sarama.ConsumerGroupClaim.
func (c claim) Messages() <-chan *sarama.ConsumerMessage { return c.messages }

// quiet is a session that commits nothing: only what was saved is, by Mirror.
type quiet struct {
	sarama.ConsumerGroupSession
	ctx context.Context
}

// MarkOffset implements sarama.ConsumerGroupSession.
func (quiet) MarkOffset(string, int32, int64, string) {}

// ResetOffset implements sarama.ConsumerGroupSession.
func (quiet) ResetOffset(string, int32, int64, string) {}

// MarkMessage implements sarama.ConsumerGroupSession.
func (quiet) MarkMessage(*sarama.ConsumerMessage, string) {}

// Commit implements sarama.ConsumerGroupSession.
func (quiet) Commit() {}

// Context implements sarama.ConsumerGroupSession.
func (q quiet) Context() context.Context { return q.ctx }

// session is our membership in the group under one generation. Rebalances are
// eager: each ends the session and all its partitions, and a new one follows.
type session struct {
	r          *run
	member     string
	generation int32
	ctx        context.Context
	cancel     context.CancelFunc // ends the session early
	parts      []*partition
}

func newSession(r *run, s sarama.ConsumerGroupSession) *session {
	ctx, cancel := context.WithCancel(s.Context())
	return &session{r: r, member: s.MemberID(), generation: s.GenerationID(), ctx: ctx, cancel: cancel}
}

// begin reports what was assigned.
func (s *session) begin(claims map[string][]int32) {
	r := s.r
	r.mu.Lock()
	if !r.leaving { // or nobody would read them
		for _, topic := range slices.Sorted(maps.Keys(claims)) {
			for _, n := range claims[topic] {
				p := newPartition(s, offsetstore.TopicPartition{Topic: topic, Partition: n})
				r.parts[p.tp] = p
				s.parts = append(s.parts, p)
			}
		}
	}
	r.mu.Unlock()
	if len(s.parts) > 0 {
		r.log.Info("partitions assigned", "partitions", fmt.Sprint(s.parts), "generation", s.generation)
	}
	r.lanes.Assigned(s.partitions())
}

func (s *session) find(tp offsetstore.TopicPartition) *partition {
	i := slices.IndexFunc(s.parts, func(p *partition) bool { return p.tp == tp })
	if i < 0 {
		return nil
	}
	return s.parts[i]
}

func (s *session) partitions() []framework.Partition {
	out := make([]framework.Partition, len(s.parts))
	for i, p := range s.parts {
		out[i] = p
	}
	return out
}

// end gives the partitions up, once nothing feeds them any more. Sarama ends a
// session in the same way whatever the reason; the group knows it.
func (s *session) end() {
	s.cancel()
	if len(s.parts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), verdictTime)
	err := s.heartbeat(ctx)
	cancel()
	if expelled(err) {
		s.lose(err)
	} else {
		s.revoke()
	}
	s.r.forget(s.parts)
}

// verdictTime bounds the question whether the group still counts us. Without an
// answer the lanes are given time: their claims are what keeps others out.
const verdictTime = 3 * time.Second

func (s *session) revoke() {
	for _, p := range s.parts {
		p.beginRevoke()
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.r.cfg.revokeTime())
	defer cancel()
	s.r.log.Info("partitions revoked", "partitions", fmt.Sprint(s.parts))
	s.r.lanes.Revoked(ctx, s.partitions())
	for _, p := range s.parts {
		p.kill()
	}
	s.r.commitMirrors(s.parts)
}

func (s *session) lose(why error) {
	for _, p := range s.parts {
		p.kill()
	}
	s.r.log.Warn("partitions lost: the group does not count this process as their owner any more", "partitions", fmt.Sprint(s.parts), "reason", why)
	s.r.lanes.Lost(s.partitions())
}

// forget removes dead partitions, unless a newer assignment took the place.
func (r *run) forget(ps []*partition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range ps {
		if r.parts[p.tp] == p {
			delete(r.parts, p.tp)
		}
	}
}

// heartbeat asks whether the group knows this member under its generation.
func (s *session) heartbeat(ctx context.Context) error {
	req := &sarama.HeartbeatRequest{Version: 3, GroupId: s.r.cfg.Subscriber.ConsumerGroup, MemberId: s.member, GenerationId: s.generation, GroupInstanceId: s.r.cfg.instanceID()}
	return s.r.atCoordinator(ctx, func(b *sarama.Broker) (sarama.KError, error) {
		resp, err := b.Heartbeat(req)
		if err != nil {
			return sarama.ErrNoError, err
		}
		return resp.Err, nil
	})
}

// atCoordinator asks the group's coordinator, wherever it is, until there is an
// answer of the group or ctx ends.
func (r *run) atCoordinator(ctx context.Context, question func(*sarama.Broker) (sarama.KError, error)) error {
	for {
		_, err := ask(ctx, r, func() (struct{}, error) { return struct{}{}, r.askCoordinator(question) })
		if err == nil || !coordinatorAway(err) || ctx.Err() != nil {
			return err
		}
		if sleep(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}

func (r *run) askCoordinator(question func(*sarama.Broker) (sarama.KError, error)) error {
	group := r.cfg.Subscriber.ConsumerGroup
	b, err := r.client.Coordinator(group)
	if err != nil {
		return err
	}
	r.brokers.Store(b, nil)
	answer, err := question(b)
	if err != nil {
		_ = b.Close() // the next try opens it anew
	} else if answer != sarama.ErrNoError {
		err = answer
	}
	if err != nil && coordinatorAway(err) {
		_ = r.client.RefreshCoordinator(group) // or the next try does it
	}
	return err
}

// coordinatorAway reports whether the error says nothing about the group.
func coordinatorAway(err error) bool {
	var answer sarama.KError
	if !errors.As(err, &answer) {
		return !errors.Is(err, sarama.ErrClosedClient) && !errors.Is(err, framework.ErrClosed)
	}
	return slices.Contains([]sarama.KError{sarama.ErrNotCoordinatorForConsumer, sarama.ErrConsumerCoordinatorNotAvailable, sarama.ErrOffsetsLoadInProgress}, answer)
}

// expelled reports whether the group says that it does not count this member any
// more. Sarama joins as a new one then.
func expelled(err error) bool {
	return errors.Is(err, sarama.ErrUnknownMemberId) || errors.Is(err, sarama.ErrIllegalGeneration) || errors.Is(err, sarama.ErrFencedInstancedId)
}
