package watermill

import (
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// KafkaConfig describes a source over watermill-kafka.
type KafkaConfig struct {
	// Subscriber is the configuration that the service would give to
	// kafka.NewSubscriber. Brokers and ConsumerGroup are required; the Unmarshaler
	// defaults to kafka.DefaultMarshaler. Of OverwriteSaramaConfig a copy is used,
	// in which is set what the package documentation names. Required.
	Subscriber kafka.SubscriberConfig
	// Topics are read together, each with all its partitions. Required.
	Topics []string

	// StartWait is how long Run waits for servers that are not up yet before it
	// gives up with [framework.ErrUnavailable]. Defaults to 1 min.
	StartWait time.Duration
	// TopicWait is how long a topic that does not exist is waited for, once the
	// servers answer, before it is refused. Topics are never created by the
	// source. Defaults to 2 s.
	TopicWait time.Duration
	// CheckInterval is how often each partition's position is compared with the
	// log: it is how long a topic that was made again may go unnoticed.
	// Defaults to 10 s.
	CheckInterval time.Duration
	// MirrorInterval is the shortest time between two commits of saved positions
	// to the group. Defaults to 1 s.
	MirrorInterval time.Duration

	// Logger receives what the source and the subscriber have to say. Defaults to
	// slog.Default().
	Logger watermill.LoggerAdapter
}

// WithDefaults returns a copy in which every unset field has its default, and
// the sarama configuration is the one that will be used.
func (c KafkaConfig) WithDefaults() KafkaConfig {
	setDefault(&c.StartWait, time.Minute)
	setDefault(&c.TopicWait, 2*time.Second)
	setDefault(&c.CheckInterval, 10*time.Second)
	setDefault(&c.MirrorInterval, time.Second)
	if c.Subscriber.Unmarshaler == nil {
		c.Subscriber.Unmarshaler = kafka.DefaultMarshaler{}
	}
	c.Subscriber.OverwriteSaramaConfig = safe(c.Subscriber.OverwriteSaramaConfig)
	return c
}

// safe returns a copy of the user's configuration, or of Watermill's default,
// that neither chooses positions nor skips records.
func safe(user *sarama.Config) *sarama.Config {
	if user == nil {
		user = kafka.DefaultSaramaSubscriberConfig()
	}
	c := *user
	c.Consumer.IsolationLevel = sarama.ReadCommitted
	c.Consumer.Return.Errors = true
	c.Consumer.Fetch.Max = 0                           // a larger record would be passed over
	c.Consumer.Group.ResetInvalidOffsets = false       // no silent reset
	c.Consumer.Offsets.AutoCommit.Enable = false       // only what is saved is committed
	c.Consumer.Offsets.Initial = sarama.OffsetOldest   // never newest; the sink decides anyway
	c.Metadata.AllowAutoTopicCreation = false          // a mistyped topic is an error
	c.Net.DialTimeout = min(c.Net.DialTimeout, netMax) // or a stop would wait for it
	c.Net.ReadTimeout = min(c.Net.ReadTimeout, netMax)
	c.Net.WriteTimeout = min(c.Net.WriteTimeout, netMax)
	return &c
}

// own is the configuration of our own client, which asks for the IDs of topics.
func own(subscriber *sarama.Config) *sarama.Config {
	c := *subscriber
	if !c.Version.IsAtLeast(sarama.V2_8_0_0) {
		c.Version = sarama.V2_8_0_0
	}
	return &c
}

// netMax bounds what an operation on a dead connection can hold up.
const netMax = 10 * time.Second

// validate names the first field at fault. It needs no connection.
func (c *KafkaConfig) validate() (err error) {
	s := &c.Subscriber
	if s.Brokers, err = offsetstore.ParseBrokers("watermill.KafkaConfig.Subscriber.Brokers", strings.Join(s.Brokers, ",")); err != nil {
		return refused(err)
	}
	if c.Topics, err = offsetstore.ParseTopics("watermill.KafkaConfig.Topics", strings.Join(c.Topics, ",")); err != nil {
		return refused(err)
	}
	switch group := s.ConsumerGroup; {
	case strings.TrimSpace(group) == "":
		return configError("watermill.KafkaConfig.Subscriber.ConsumerGroup is %q; give the group that shares the partitions, by custom the pipeline's name", group)
	case strings.TrimSpace(group) != group:
		return configError("watermill.KafkaConfig.Subscriber.ConsumerGroup is %q; remove the blanks around the name", group)
	case s.OverwriteSaramaConfig.Consumer.Group.InstanceId != "" && len(c.Topics) > 1:
		return configError("watermill.KafkaConfig: Consumer.Group.InstanceId %q with %d topics; watermill-kafka joins the group once for each topic, so a static member can have one only", s.OverwriteSaramaConfig.Consumer.Group.InstanceId, len(c.Topics))
	}
	if err := s.OverwriteSaramaConfig.Validate(); err != nil {
		return configError("watermill.KafkaConfig.Subscriber.OverwriteSaramaConfig: %w", err)
	}
	return c.validateTimes()
}

func (c *KafkaConfig) validateTimes() error {
	for name, d := range map[string]time.Duration{
		"StartWait": c.StartWait, "TopicWait": c.TopicWait, "CheckInterval": c.CheckInterval, "MirrorInterval": c.MirrorInterval,
	} {
		if err := checkTime("watermill.KafkaConfig."+name, d); err != nil {
			return err
		}
	}
	return nil
}

// revokeTime is how long lanes may take to give partitions up.
func (c *KafkaConfig) revokeTime() time.Duration {
	return c.Subscriber.OverwriteSaramaConfig.Consumer.Group.Rebalance.Timeout * 9 / 10
}

// instanceID is nil for an ordinary member.
func (c *KafkaConfig) instanceID() *string {
	if id := c.Subscriber.OverwriteSaramaConfig.Consumer.Group.InstanceId; id != "" {
		return &id
	}
	return nil
}

var _ framework.Source = (*KafkaSource)(nil)
