package watermill_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/codec"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/memory"
	watermillsource "github.com/lockstep-stream/lockstep/sources/watermill"
)

// channel is Watermill's own publisher and subscriber in memory, with a pipeline
// that saves what comes.
type channel struct {
	t     *testing.T
	pub   *gochannel.GoChannel
	store *memory.Store[string]
	sent  int
}

func newChannel(t *testing.T) *channel {
	pub := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, testLog(t))
	t.Cleanup(func() {
		if err := pub.Close(); err != nil {
			t.Error(err)
		}
	})
	return &channel{t: t, pub: pub, store: memory.NewStore[string]()}
}

// publish returns when all n messages are acknowledged, or nobody listens.
func (c *channel) publish(n int) {
	c.t.Helper()
	for range n {
		m := message.NewMessage(strconv.Itoa(c.sent), fmt.Appendf(nil, "%d", c.sent))
		m.Metadata.Set("partition", "0")
		m.Metadata.Set("offset", strconv.Itoa(c.sent))
		if err := c.pub.Publish("t", m); err != nil {
			c.t.Fatal(err)
		}
		c.sent++
	}
}

// start runs the pipeline, and returns once it has subscribed.
func (c *channel) start() (stop func() error) {
	c.t.Helper()
	listening := &listening{Subscriber: c.pub, there: make(chan struct{})}
	source, err := watermillsource.New(watermillsource.Config{Subscriber: listening, Topics: []string{"t"}, Extract: extract, Logger: testLog(c.t)})
	if err != nil {
		c.t.Fatal(err)
	}
	pipeline, err := framework.NewPipeline("saving", framework.From(codec.String()))
	if err != nil {
		c.t.Fatal(err)
	}
	runner, err := framework.NewRunner(pipeline, source, c.store.Open(memory.Options[string]{}), framework.Config{Logger: watermillsource.NewLogger(testLog(c.t))})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- runner.Run(ctx) }()
	<-listening.there
	return func() error { cancel(); return <-done }
}

// listening tells when it is subscribed to.
type listening struct {
	message.Subscriber
	there chan struct{}
}

// Subscribe implements message.Subscriber.
func (l *listening) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	messages, err := l.Subscriber.Subscribe(ctx, topic)
	close(l.there)
	return messages, err
}

func TestAGoChannelIsReadOnceOverRestarts(t *testing.T) {
	c := newChannel(t)
	for range 3 {
		stop := c.start()
		c.publish(50)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	for i := range 150 {
		want = append(want, strconv.Itoa(i))
	}
	if got := c.store.AllWrites("saving"); !slices.Equal(got, want) {
		t.Errorf("saved %v, want 0 to 149", got)
	}
}

func TestWhatAGoChannelHasLostIsNoticed(t *testing.T) {
	c := newChannel(t)
	stop := c.start()
	c.publish(5)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	c.publish(2) // to nobody
	stop = c.start()
	c.publish(1) // the source gives it back, and ends
	err := stop()
	var pe *framework.PositionError
	if !errors.As(err, &pe) || !errors.Is(err, framework.ErrBelowLogStart) || pe.Position.Offset != 5 || pe.LogStart != 7 {
		t.Errorf("got %v", err)
	}
}

// scripted is a subscriber that hands over what it is told, and waits for nothing.
type scripted []int64

// Close implements message.Subscriber.
func (scripted) Close() error { return nil }

// Subscribe implements message.Subscriber.
func (s scripted) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	out := make(chan *message.Message)
	go func() {
		defer close(out)
		for _, offset := range s {
			m := message.NewMessage("", nil)
			m.Metadata.Set("partition", "0")
			m.Metadata.Set("offset", strconv.FormatInt(offset, 10))
			select {
			case out <- m:
			case <-ctx.Done():
			}
		}
		<-ctx.Done()
	}()
	return out, nil
}

// Saved or not, what comes behind a message that was passed by makes the position
// pass it by, too.
func TestAMessageThatComesLateEndsTheSource(t *testing.T) {
	for name, s := range map[string]scripted{"the next": {0, 2, 1}, "within a gap": {0, 1, 9, 10, 4}, "again and then late": {0, 3, 0, 3, 4, 2}} {
		t.Run(name, func(t *testing.T) {
			src, err := watermillsource.New(watermillsource.Config{Subscriber: s, Topics: []string{"t"}, Extract: extract, Logger: testLog(t)})
			err = runErr(t, src, err)
			late := fmt.Sprintf("t/0@%d", s[len(s)-1])
			if !errors.Is(err, framework.ErrOrder) || !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), late) {
				t.Errorf("got %v, want an ErrOrder that names %s", err, late)
			}
		})
	}
}

func TestMessagesMayComeAgain(t *testing.T) {
	s := scripted{0, 2, 5, 0, 2, 5, 2, 6, 5, 7}
	src, err := watermillsource.New(watermillsource.Config{Subscriber: s, Topics: []string{"t"}, Extract: extract, Logger: testLog(t)})
	lanes, stop := run(t, src, err)
	lanes.wait(5)
	lanes.partition().Mirror(offsetstore.At(8))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	var offsets []int64
	for _, r := range lanes.records {
		offsets = append(offsets, r.Offset)
	}
	if want := []int64{0, 2, 5, 6, 7}; !slices.Equal(offsets, want) {
		t.Errorf("delivered %v, want %v", offsets, want)
	}
}
