package watermill_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	watermillsource "github.com/lockstep-stream/lockstep/sources/watermill"
)

func TestMistakesInConfigAreRefusedByName(t *testing.T) {
	own, err := kafka.NewSubscriber(kafka.SubscriberConfig{Brokers: []string{"h:1"}, Unmarshaler: kafka.DefaultMarshaler{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	good := func() watermillsource.Config {
		return watermillsource.Config{Subscriber: newPubsub().subscriber("g"), Topics: []string{"t"}, Extract: extract}
	}
	for want, spoil := range map[string]func(*watermillsource.Config){
		"Config.Subscriber is nil":         func(c *watermillsource.Config) { c.Subscriber = nil },
		"Config.Subscriber is nil; give":   func(c *watermillsource.Config) { c.Subscriber = (*subscriber)(nil) },
		"*kafka.Subscriber":                func(c *watermillsource.Config) { c.Subscriber = own },
		"Config.Extract is nil":            func(c *watermillsource.Config) { c.Extract = nil },
		"Config.Topics is empty":           func(c *watermillsource.Config) { c.Topics = nil },
		`Config.Topics has ""`:             func(c *watermillsource.Config) { c.Topics = []string{""} },
		`Config.Topics has "a"`:            func(c *watermillsource.Config) { c.Topics = []string{"a", "a"} },
		"watermill.Config.StartWait is -1": func(c *watermillsource.Config) { c.StartWait = -1 * time.Second },
	} {
		cfg := good()
		spoil(&cfg)
		if _, err := watermillsource.New(cfg); !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an ErrConfig with %q", err, want)
		}
	}
	if _, err := watermillsource.New(good()); err != nil {
		t.Errorf("a good configuration was refused: %v", err)
	}
}

// bed is a pubsub with one topic, and a source over it.
type bed struct {
	*pubsub
	t   *testing.T
	sub *subscriber
}

func newBed(t *testing.T, records int) *bed {
	t.Helper()
	b := &bed{pubsub: newPubsub(), t: t}
	b.sub = b.subscriber("group")
	if err := b.create(t.Context(), "t", 1); err != nil {
		t.Fatal(err)
	}
	b.add(records)
	return b
}

func (b *bed) add(records int) {
	for range records {
		if err := b.append(b.t.Context(), offsetstore.TopicPartition{Topic: "t"}, framework.Record{Value: []byte("v")}); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *bed) source() (*watermillsource.Source, error) {
	return watermillsource.New(watermillsource.Config{Subscriber: b.sub, Topics: []string{"t"}, Extract: extract, Logger: testLog(b.t)})
}

func (b *bed) ackedUpTo() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.acked["group/t/0"]
}

func TestAMessageWithoutPositionEndsTheSource(t *testing.T) {
	b := newBed(t, 1)
	src, err := watermillsource.New(watermillsource.Config{
		Subscriber: b.sub, Topics: []string{"t"}, Logger: testLog(t),
		Extract: func(string, *message.Message) (watermillsource.Origin, error) {
			return watermillsource.Origin{}, errors.New("no offset in its metadata")
		},
	})
	err = runErr(t, src, err)
	if !errors.Is(err, watermillsource.ErrNoPosition) || !errors.Is(err, framework.ErrConfig) {
		t.Errorf("got %v", err)
	}
	for _, want := range []string{`"uuid-0"`, `"t"`, "*watermill_test.subscriber", "no offset in its metadata"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	if b.ackedUpTo() != 0 {
		t.Error("the message was acknowledged")
	}
}

func TestANegativePositionIsNone(t *testing.T) {
	b := newBed(t, 1)
	src, err := watermillsource.New(watermillsource.Config{
		Subscriber: b.sub, Topics: []string{"t"}, Logger: testLog(t),
		Extract: func(string, *message.Message) (watermillsource.Origin, error) {
			return watermillsource.Origin{Offset: -1}, nil
		},
	})
	if err := runErr(t, src, err); !errors.Is(err, watermillsource.ErrNoPosition) {
		t.Errorf("got %v", err)
	}
}

func TestMessagesAreAcknowledgedOnceSaved(t *testing.T) {
	b := newBed(t, 3)
	src, err := b.source()
	lanes, stop := run(t, src, err)
	first := lanes.wait(1)[0]
	if b.ackedUpTo() != 0 {
		t.Fatal("a message was acknowledged before it was saved")
	}
	if got := watermillsource.UUID(&first); got != "uuid-0" {
		t.Errorf("the UUID is %q", got)
	}
	if got := watermillsource.Metadata(&first); got.Get("offset") != "0" || got.Get("partition") != "0" || len(got) != 2 {
		t.Errorf("the metadata are %v", got)
	}
	lanes.partition().Mirror(offsetstore.At(1))
	lanes.wait(2)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got := b.ackedUpTo(); got != 1 {
		t.Errorf("acknowledged up to %d, want 1", got)
	}
}

func TestWhatIsSavedIsAcknowledgedAndNotDelivered(t *testing.T) {
	b := newBed(t, 10)
	src, err := b.source()
	lanes, _ := runAt(t, 7, src, err)
	if got := lanes.wait(1)[0].Offset; got != 7 {
		t.Errorf("began at %d, want 7", got)
	}
	eventually(t, "the acknowledgement of what was saved before", func() bool { return b.ackedUpTo() == 7 })
}

func TestASubscriberThatBeginsAboveThePositionIsRefused(t *testing.T) {
	b := newBed(t, 10)
	b.sub.from = 5
	src, err := b.source()
	lanes, _ := runAt(t, 3, src, err)
	err = lanes.waitRefusal()
	var pe *framework.PositionError
	if !errors.Is(err, framework.ErrBelowLogStart) || !errors.As(err, &pe) {
		t.Fatalf("got %v", err)
	}
	if pe.Position.Offset != 3 || pe.LogStart != 5 || pe.LogEnd != 5 {
		t.Errorf("the error says %+v", pe)
	}
	// As a policy does that goes on without them:
	p := lanes.partition()
	if err := p.Start(t.Context(), offsetstore.At(5)); err != nil {
		t.Fatal(err)
	}
	p.Resume()
	if got := lanes.wait(1)[0].Offset; got != 5 {
		t.Errorf("went on at %d, want 5", got)
	}
}

// A reset by an operator moves a position back, where this source cannot go.
func TestAPositionBelowWhatWasAcknowledgedIsRefused(t *testing.T) {
	b := newBed(t, 3)
	src, err := b.source()
	lanes, _ := run(t, src, err)
	p := lanes.partition()
	lanes.wait(1)
	p.Mirror(offsetstore.At(1))
	lanes.wait(2)
	p.Pause()
	if err := p.Start(t.Context(), offsetstore.At(0)); !errors.Is(err, framework.ErrBelowLogStart) {
		t.Errorf("got %v", err)
	}
}

func TestGapsWithinAStreamAreNormal(t *testing.T) {
	b := newBed(t, 3)
	b.logs[offsetstore.TopicPartition{Topic: "t"}][1] = nil
	src, err := b.source()
	lanes, _ := run(t, src, err)
	lanes.wait(1)
	p := lanes.partition()
	p.Mirror(offsetstore.At(1))
	lanes.wait(2)
	p.Pause() // and a lane that claims again within the gap
	if err := p.Start(t.Context(), offsetstore.At(1)); err != nil {
		t.Fatal(err)
	}
	p.Resume()
	var offsets []int64
	for _, r := range lanes.wait(3) {
		offsets = append(offsets, r.Offset)
	}
	if !slices.Equal(offsets, []int64{0, 2, 2}) {
		t.Errorf("delivered %v, want 0, 2, and 2 again", offsets)
	}
}

func TestRulesThatASubscriberCannotResolveAreRefused(t *testing.T) {
	b := newBed(t, 3)
	b.sub.from = 2
	src, err := b.source()
	lanes, _ := runAt(t, 2, src, err)
	p := lanes.partition()
	for _, rule := range []offsetstore.StartRule{offsetstore.Latest(), offsetstore.Since(time.Now())} {
		if _, err := p.Resolve(t.Context(), offsetstore.StartRules{Default: rule}); !errors.Is(err, framework.ErrConfig) {
			t.Errorf("%v: got %v", rule, err)
		}
	}
	if _, err := p.Resolve(t.Context(), offsetstore.StartRules{Default: offsetstore.Exact(1)}); !errors.Is(err, framework.ErrBelowLogStart) {
		t.Errorf("an offset that is gone: got %v", err)
	}
	for rule, want := range map[offsetstore.StartRule]int64{offsetstore.Earliest(): 2, offsetstore.Exact(9): 9} {
		if got, err := p.Resolve(t.Context(), offsetstore.StartRules{Default: rule}); err != nil || got.Starts[0] != want {
			t.Errorf("%v: got %v and %v, want %d", rule, got.Starts, err, want)
		}
	}
}

func TestASubscriberThatEndsByItselfEndsTheSource(t *testing.T) {
	b := newBed(t, 0)
	close(b.sub.end)
	src, err := b.source()
	if err := runErr(t, src, err); !errors.Is(err, framework.ErrUnavailable) || !strings.Contains(err.Error(), "closed its channel") {
		t.Errorf("got %v", err)
	}
}

func TestSubscribingIsTriedAgain(t *testing.T) {
	b := newBed(t, 1)
	b.sub.refuse.Store(2)
	src, err := b.source()
	lanes, _ := run(t, src, err)
	lanes.wait(1)
}

func TestSubscribingIsGivenUp(t *testing.T) {
	b := newBed(t, 1)
	b.sub.refuse.Store(1 << 30)
	src, err := watermillsource.New(watermillsource.Config{Subscriber: b.sub, Topics: []string{"t"}, Extract: extract, StartWait: time.Millisecond, Logger: testLog(t)})
	if err := runErr(t, src, err); !errors.Is(err, framework.ErrUnavailable) || !strings.Contains(err.Error(), "not yet") {
		t.Errorf("got %v", err)
	}
}
