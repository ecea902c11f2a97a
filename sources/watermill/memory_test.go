package watermill_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	watermillsource "github.com/lockstep-stream/lockstep/sources/watermill"
)

// pubsub is a broker in memory whose subscribers, like most, go on where their
// group has acknowledged, and hand over one message a partition at a time.
type pubsub struct {
	mu      sync.Mutex
	changed chan struct{}
	logs    map[offsetstore.TopicPartition][]*message.Message // nil: a gap
	parts   map[string]int32
	acked   map[string]int // by group and partition
}

func newPubsub() *pubsub {
	return &pubsub{
		changed: make(chan struct{}), logs: map[offsetstore.TopicPartition][]*message.Message{},
		parts: map[string]int32{}, acked: map[string]int{},
	}
}

func (b *pubsub) create(_ context.Context, topic string, partitions int32) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.parts[topic] = partitions
	return nil
}

func (b *pubsub) append(_ context.Context, tp offsetstore.TopicPartition, records ...framework.Record) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range records {
		n := len(b.logs[tp])
		m := message.NewMessage(fmt.Sprintf("uuid-%d", n), r.Value)
		m.Metadata.Set("partition", strconv.Itoa(int(tp.Partition)))
		m.Metadata.Set("offset", strconv.Itoa(n))
		b.logs[tp] = append(b.logs[tp], m)
	}
	close(b.changed)
	b.changed = make(chan struct{})
	return nil
}

// next returns the first message at or behind offset, or a channel to wait for.
func (b *pubsub) next(tp offsetstore.TopicPartition, offset int) (*message.Message, int, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ; offset < len(b.logs[tp]); offset++ {
		if m := b.logs[tp][offset]; m != nil {
			return m.Copy(), offset, nil
		}
	}
	return nil, offset, b.changed
}

// subscriber is a message.Subscriber of a group.
type subscriber struct {
	b      *pubsub
	group  string
	from   int          // where a group begins that has acknowledged nothing
	refuse atomic.Int32 // so many subscriptions fail
	nacked atomic.Int32
	end    chan struct{} // ends all subscriptions when closed
}

func (b *pubsub) subscriber(group string) *subscriber {
	return &subscriber{b: b, group: group, end: make(chan struct{})}
}

// Close implements message.Subscriber.
func (s *subscriber) Close() error { return nil }

// Subscribe implements message.Subscriber.
func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if s.refuse.Add(-1) >= 0 {
		return nil, fmt.Errorf("not yet")
	}
	out := make(chan *message.Message)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	for n := range s.b.parts[topic] {
		wg.Go(func() { s.pump(ctx, offsetstore.TopicPartition{Topic: topic, Partition: n}, out) })
	}
	go func() {
		select {
		case <-ctx.Done():
		case <-s.end:
		}
		cancel()
		wg.Wait()
		close(out)
	}()
	return out, nil
}

// pump hands over a partition, each message once the one before is acknowledged.
func (s *subscriber) pump(ctx context.Context, tp offsetstore.TopicPartition, out chan<- *message.Message) {
	key := s.group + "/" + tp.String()
	s.b.mu.Lock()
	at, ok := s.b.acked[key]
	if !ok {
		at = s.from
	}
	s.b.mu.Unlock()
	for {
		m, offset, changed := s.b.next(tp, at)
		if m == nil {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return
			}
		}
		select {
		case out <- m:
		case <-ctx.Done():
			return
		}
		select {
		case <-m.Acked():
			at = offset + 1
			s.b.mu.Lock()
			s.b.acked[key] = at
			s.b.mu.Unlock()
		case <-m.Nacked():
			s.nacked.Add(1)
		case <-ctx.Done():
			return
		}
	}
}

// extract finds what append wrote into the metadata.
func extract(_ string, m *message.Message) (watermillsource.Origin, error) {
	partition, err := strconv.Atoi(m.Metadata.Get("partition"))
	if err != nil {
		return watermillsource.Origin{}, err
	}
	offset, err := strconv.ParseInt(m.Metadata.Get("offset"), 10, 64)
	return watermillsource.Origin{Partition: int32(partition), Offset: offset}, err
}
