package watermill_test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	watermillsource "github.com/lockstep-stream/lockstep/sources/watermill"
)

func TestMistakesInKafkaConfigAreRefusedByName(t *testing.T) {
	good := func() watermillsource.KafkaConfig {
		return watermillsource.KafkaConfig{Subscriber: kafka.SubscriberConfig{Brokers: []string{"h:1"}, ConsumerGroup: "g"}, Topics: []string{"t"}}
	}
	static := func(c *watermillsource.KafkaConfig) {
		c.Subscriber.OverwriteSaramaConfig = sarama.NewConfig()
		c.Subscriber.OverwriteSaramaConfig.Consumer.Group.InstanceId = "one"
		c.Topics = []string{"a", "b"}
	}
	for want, spoil := range map[string]func(*watermillsource.KafkaConfig){
		"Subscriber.Brokers":       func(c *watermillsource.KafkaConfig) { c.Subscriber.Brokers = nil },
		"ConsumerGroup is \"\"":    func(c *watermillsource.KafkaConfig) { c.Subscriber.ConsumerGroup = "" },
		"ConsumerGroup is \" g\"":  func(c *watermillsource.KafkaConfig) { c.Subscriber.ConsumerGroup = " g" },
		"KafkaConfig.Topics":       func(c *watermillsource.KafkaConfig) { c.Topics = nil },
		"InstanceId \"one\"":       static,
		"OverwriteSaramaConfig: ":  func(c *watermillsource.KafkaConfig) { c.Subscriber.OverwriteSaramaConfig = &sarama.Config{} },
		"CheckInterval is -1":      func(c *watermillsource.KafkaConfig) { c.CheckInterval = -1 },
		"MirrorInterval is 1ns":    func(c *watermillsource.KafkaConfig) { c.MirrorInterval = 1 },
		"KafkaConfig.StartWait is": func(c *watermillsource.KafkaConfig) { c.StartWait = 1 },
	} {
		cfg := good()
		spoil(&cfg)
		if _, err := watermillsource.NewKafka(cfg); !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an ErrConfig with %q", err, want)
		}
	}
	if _, err := watermillsource.NewKafka(good()); err != nil {
		t.Errorf("a good configuration was refused: %v", err)
	}
}

func TestUnsafeDefaultsAreOverridden(t *testing.T) {
	user := kafka.DefaultSaramaSubscriberConfig()
	user.Consumer.Offsets.Initial = sarama.OffsetNewest
	user.Consumer.Fetch.Max = 1
	user.ClientID = "mine"
	got := watermillsource.KafkaConfig{Subscriber: kafka.SubscriberConfig{OverwriteSaramaConfig: user}}.WithDefaults().Subscriber.OverwriteSaramaConfig
	c := &got.Consumer
	if c.IsolationLevel != sarama.ReadCommitted || c.Offsets.Initial != sarama.OffsetOldest || c.Offsets.AutoCommit.Enable ||
		c.Group.ResetInvalidOffsets || c.Fetch.Max != 0 || got.Metadata.AllowAutoTopicCreation {
		t.Errorf("unsafe: %+v", got.Consumer)
	}
	if got.ClientID != "mine" {
		t.Errorf("the ClientID is %q", got.ClientID)
	}
	if user.Consumer.IsolationLevel == sarama.ReadCommitted || user.Consumer.Fetch.Max != 1 {
		t.Error("the user's own configuration was changed")
	}
}

// topicOf makes a topic with records 0 to n-1 in one partition.
func topicOf(b *broker, n int) string {
	topic := unique("topic")
	b.made(topic, 1)
	b.produce(topic, 0, 0, n)
	return topic
}

func TestOnlySavedPositionsAreCommitted(t *testing.T) {
	_, b := fake(t)
	topic := topicOf(b, 10)
	src, err := watermillsource.NewKafka(b.config("g", topic))
	lanes, stop := runAt(t, 2, src, err)
	lanes.wait(8)
	eventually(t, "the mirror of the start", func() bool { return b.groupOffset("g", topic, 0) == 2 })
	p := lanes.partition()
	p.Mirror(offsetstore.At(5))
	eventually(t, "the mirror", func() bool { return b.groupOffset("g", topic, 0) == 5 })
	p.Pause() // as when an operator has reset the position
	if err := p.Start(t.Context(), offsetstore.At(10)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the mirror of another start", func() bool { return b.groupOffset("g", topic, 0) == 10 })
	p.Mirror(offsetstore.At(6))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got := b.groupOffset("g", topic, 0); got != 6 {
		t.Errorf("the group holds %d after the stop, want 6, the last position that was saved", got)
	}
}

// What the group has committed neither decides anything nor keeps a partition
// from starting, wherever it lies.
func TestTheGroupsOffsetDecidesNothing(t *testing.T) {
	for _, committed := range []int64{7, 1_000_000} {
		t.Run(fmt.Sprint(committed), func(t *testing.T) {
			_, b := fake(t)
			topic := topicOf(b, 10)
			var offsets kadm.Offsets
			offsets.Add(kadm.Offset{Topic: topic, Partition: 0, At: committed, LeaderEpoch: -1})
			if err := b.adm.CommitAllOffsets(t.Context(), "g", offsets); err != nil {
				t.Fatal(err)
			}
			src, err := watermillsource.NewKafka(b.config("g", topic))
			lanes, _ := runAt(t, 3, src, err)
			if got := lanes.wait(7)[0].Offset; got != 3 {
				t.Errorf("began at %d, want 3", got)
			}
		})
	}
}

func TestUUIDAndMetadataReachTheHandler(t *testing.T) {
	_, b := fake(t)
	topic := topicOf(b, 0)
	pub, err := kafka.NewPublisher(kafka.PublisherConfig{Brokers: b.addrs, Marshaler: kafka.DefaultMarshaler{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := message.NewMessage("uuid-1", []byte("payload"))
	m.Metadata.Set("correlation_id", "c1")
	if err := pub.Publish(topic, m); err != nil {
		t.Fatal(err)
	}
	if err := pub.Close(); err != nil {
		t.Fatal(err)
	}
	cfg := b.config("g", topic)
	cfg.Subscriber.Unmarshaler = adding{}
	src, err := watermillsource.NewKafka(cfg)
	lanes, _ := run(t, src, err)
	r := lanes.wait(1)[0]
	if got := watermillsource.UUID(&r); got != "uuid-1" {
		t.Errorf("the UUID is %q", got)
	}
	if got := watermillsource.Metadata(&r); got.Get("correlation_id") != "c1" || got.Get("added") != "yes" || len(got) != 2 {
		t.Errorf("the metadata are %v", got)
	}
	if string(r.Value) != "payload!" {
		t.Errorf("the value is %q, want what the Unmarshaler made", r.Value)
	}
}

// adding is an Unmarshaler that changes messages.
type adding struct{ kafka.DefaultMarshaler }

func (a adding) Unmarshal(k *sarama.ConsumerMessage) (*message.Message, error) {
	m, err := a.DefaultMarshaler.Unmarshal(k)
	m.Metadata.Set("added", "yes")
	m.Payload = append(slices.Clone(m.Payload), '!')
	return m, err
}

// refusing is an Unmarshaler that refuses the value "3".
type refusing struct{ kafka.DefaultMarshaler }

var errPoison = errors.New("poison")

func (u refusing) Unmarshal(k *sarama.ConsumerMessage) (*message.Message, error) {
	if string(k.Value) == "3" {
		return nil, errPoison
	}
	return u.DefaultMarshaler.Unmarshal(k)
}

// Left alone, watermill-kafka would end the group's session at such a record.
func TestARecordThatTheUnmarshalerRefusesStopsItsPartitionAlone(t *testing.T) {
	_, b := fake(t)
	topic := unique("topic")
	b.made(topic, 2)
	b.produce(topic, 0, 0, 10)
	b.produce(topic, 1, 10, 20)
	cfg := b.config("g", topic)
	cfg.Subscriber.Unmarshaler = refusing{}
	src, err := watermillsource.NewKafka(cfg)
	lanes, stop := run(t, src, err)
	err = lanes.waitRefusal()
	var ue *watermillsource.UnmarshalError
	if !errors.As(err, &ue) || ue.Offset != 3 || ue.TopicPartition.Partition != 0 || !errors.Is(err, errPoison) {
		t.Fatalf("got %v", err)
	}
	if got := len(lanes.wait(13)); got != 13 {
		t.Errorf("%d records were delivered, want 3 and 10", got)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if len(lanes.parts) != 2 {
		t.Errorf("%d assignments, want 2: the session has ended", len(lanes.parts))
	}
}

// readingAhead is a Tracer that, like the one for OpenTelemetry, takes messages
// before the subscriber asks for them.
type readingAhead struct{ kafka.SaramaTracer }

func (readingAhead) WrapConsumerGroupHandler(h sarama.ConsumerGroupHandler) sarama.ConsumerGroupHandler {
	return aheadHandler{h}
}

type aheadHandler struct{ sarama.ConsumerGroupHandler }

func (h aheadHandler) ConsumeClaim(s sarama.ConsumerGroupSession, c sarama.ConsumerGroupClaim) error {
	ahead := aheadClaim{c, make(chan *sarama.ConsumerMessage, 3)}
	go func() {
		defer close(ahead.messages)
		for k := range c.Messages() {
			ahead.messages <- k
		}
	}()
	return h.ConsumerGroupHandler.ConsumeClaim(s, ahead)
}

type aheadClaim struct {
	sarama.ConsumerGroupClaim
	messages chan *sarama.ConsumerMessage
}

func (c aheadClaim) Messages() <-chan *sarama.ConsumerMessage { return c.messages }

func TestATracerMayReadAhead(t *testing.T) {
	_, b := fake(t)
	topic := topicOf(b, 200)
	cfg := b.config("g", topic)
	cfg.Subscriber.Tracer = readingAhead{}
	src, err := watermillsource.NewKafka(cfg)
	lanes, _ := run(t, src, err)
	for i, r := range lanes.wait(200) {
		if r.Offset != int64(i) {
			t.Fatalf("record %d has offset %d", i, r.Offset)
		}
	}
}

func TestSeveralTopicsAreReadTogether(t *testing.T) {
	_, b := fake(t)
	one, two := topicOf(b, 10), topicOf(b, 10)
	src, err := watermillsource.NewKafka(b.config("g", one, two))
	lanes, stop := run(t, src, err)
	lanes.wait(20)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestAMissingTopicIsRefused(t *testing.T) {
	_, b := fake(t)
	cfg := b.config("g", "nowhere")
	cfg.TopicWait = 10 * time.Millisecond
	src, err := watermillsource.NewKafka(cfg)
	if err := runErr(t, src, err); !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), `"nowhere"`) {
		t.Errorf("got %v", err)
	}
}

func TestServersThatAreNotUpAreWaitedForWithinALimit(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	_, b := fake(t)
	cfg := b.config("g", "t")
	cfg.Subscriber.Brokers, cfg.StartWait = []string{addr}, 10*time.Millisecond
	src, err := watermillsource.NewKafka(cfg)
	if err := runErr(t, src, err); !errors.Is(err, framework.ErrUnavailable) || !strings.Contains(err.Error(), addr) {
		t.Errorf("got %v", err)
	}
}

// The subscriber itself would try again for ever.
func TestAGroupThatMayNotBeReadEndsTheSource(t *testing.T) {
	c, b := fake(t)
	topic := topicOf(b, 1)
	c.ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
		resp.ErrorCode = kerr.GroupAuthorizationFailed.Code
		return resp, nil, true
	})
	src, err := watermillsource.NewKafka(b.config("g", topic))
	if err := runErr(t, src, err); !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), "right Read on the group") {
		t.Errorf("got %v", err)
	}
}
