package kafka

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Config says where to read and as whom. Brokers, Topics and Group are
// required; everything else has a default.
type Config struct {
	// Brokers are the first servers to ask, as host:port; the others are found
	// through them. See [offsetstore.ParseBrokers] for the rules. Required.
	Brokers []string
	// Topics are read together, each with all its partitions. Required.
	Topics []string
	// Group is the consumer group that shares the partitions among processes,
	// by custom the pipeline's name. Its offsets in Kafka are a mirror for lag
	// tools and never decide where to start. Required.
	Group string
	// InstanceID makes this process a static member: it keeps its partitions
	// when it is back within SessionTimeout, and does not leave the group when
	// it stops. Each process of the group needs another one. Defaults to "", an
	// ordinary member.
	InstanceID string
	// ClientID names this client in the servers' logs and quotas. Defaults to
	// "lockstep".
	ClientID string

	// TLS, if not nil, encrypts every connection. The server name is taken from
	// the broker's address unless set. Defaults to nil, plain text.
	TLS *tls.Config
	// SASL, if not nil, logs in to every connection. Defaults to nil, no login.
	SASL *SASL

	// SessionTimeout is how long the group waits for a sign of life before it
	// gives the partitions to others. The broker bounds it, by default to 6 s
	// and more. Defaults to 45 s.
	SessionTimeout time.Duration
	// RebalanceTimeout is how long the group waits for members to give up
	// partitions. A lane that is being revoked has nine tenths of it to finish
	// what is in flight. Defaults to 60 s.
	RebalanceTimeout time.Duration
	// StartWait is how long Run waits for servers that are not up yet before it
	// gives up with [framework.ErrUnavailable]. Defaults to 1 min.
	StartWait time.Duration
	// TopicWait is how long a topic that does not exist is waited for, once the
	// servers answer, before it is refused. Topics are never created by the
	// source. Defaults to 2 s.
	TopicWait time.Duration
	// MetadataMaxAge is how long it takes at most until partitions that were
	// added to a topic are noticed. Defaults to 30 s.
	MetadataMaxAge time.Duration
	// MirrorInterval is the shortest time between two commits of saved positions
	// to the group. Defaults to 1 s.
	MirrorInterval time.Duration

	// FetchMaxBytes bounds what the answer to one fetch from one broker takes in
	// memory, in bytes, unpacked and with about 200 bytes a record beside its
	// own. How much the records grow by that is measured, and less is asked for
	// accordingly. The client holds up to two such answers a broker. A single
	// record batch above the bound still arrives, alone. Defaults to 12 MiB.
	FetchMaxBytes int32
	// FetchMaxPartitionBytes bounds the share of one partition in a fetch, counted
	// alike. Defaults to 3 MiB.
	FetchMaxPartitionBytes int32
	// FetchMaxWait is how long a broker may hold a fetch while there is nothing
	// to send. A partition that is resumed while all others are idle waits up to
	// this long. Defaults to 250 ms.
	FetchMaxWait time.Duration

	// Logger receives what the source and its client have to say. Warnings that
	// repeat are held back. Defaults to slog.Default().
	Logger *slog.Logger
	// Dial, if not nil, opens connections in place of net.Dialer; TLS, if set,
	// is spoken on what it returns. Defaults to nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// WithDefaults returns a copy in which every unset field has its default.
func (c Config) WithDefaults() Config {
	setDefault(&c.ClientID, "lockstep")
	setDefault(&c.SessionTimeout, 45*time.Second)
	setDefault(&c.RebalanceTimeout, time.Minute)
	setDefault(&c.StartWait, time.Minute)
	setDefault(&c.TopicWait, 2*time.Second)
	setDefault(&c.MetadataMaxAge, 30*time.Second)
	setDefault(&c.MirrorInterval, time.Second)
	setDefault(&c.FetchMaxBytes, 12<<20)
	setDefault(&c.FetchMaxPartitionBytes, 3<<20)
	setDefault(&c.FetchMaxWait, 250*time.Millisecond)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validate names the first field at fault. It needs no connection.
func (c *Config) validate() (err error) {
	if c.Brokers, err = offsetstore.ParseBrokers("kafka.Config.Brokers", strings.Join(c.Brokers, ",")); err != nil {
		return refused(err)
	}
	if c.Topics, err = offsetstore.ParseTopics("kafka.Config.Topics", strings.Join(c.Topics, ",")); err != nil {
		return refused(err)
	}
	if err := c.validateNames(); err != nil {
		return err
	}
	if err := c.validateTimes(); err != nil {
		return err
	}
	if c.FetchMaxBytes < 1 || c.FetchMaxPartitionBytes < 1 {
		return configError("FetchMaxBytes is %d and FetchMaxPartitionBytes %d; both must be positive", c.FetchMaxBytes, c.FetchMaxPartitionBytes)
	}
	if c.FetchMaxPartitionBytes > c.FetchMaxBytes {
		return configError("FetchMaxPartitionBytes is %d, more than FetchMaxBytes %d; a partition's share cannot exceed the whole", c.FetchMaxPartitionBytes, c.FetchMaxBytes)
	}
	return c.SASL.validate()
}

// validateNames refuses blanks that a copied setting brings along: Kafka would
// take them for a part of the name.
func (c *Config) validateNames() error {
	if strings.TrimSpace(c.Group) == "" {
		return configError("Group is %q; give the consumer group's name, by custom the pipeline's", c.Group)
	}
	for _, f := range []struct{ name, value string }{
		{"Group", c.Group},
		{"InstanceID", c.InstanceID},
		{"ClientID", c.ClientID},
	} {
		if strings.TrimSpace(f.value) != f.value {
			return configError("%s is %q; remove the blanks around the name", f.name, f.value)
		}
	}
	return nil
}

func (c *Config) validateTimes() error {
	for _, f := range []struct {
		name string
		d    time.Duration
		min  time.Duration
	}{
		{"SessionTimeout", c.SessionTimeout, time.Second},
		{"RebalanceTimeout", c.RebalanceTimeout, time.Second},
		{"StartWait", c.StartWait, time.Millisecond},
		{"TopicWait", c.TopicWait, time.Millisecond},
		{"MetadataMaxAge", c.MetadataMaxAge, 10 * time.Millisecond},
		{"MirrorInterval", c.MirrorInterval, time.Millisecond},
		{"FetchMaxWait", c.FetchMaxWait, 10 * time.Millisecond},
	} {
		if f.d < f.min {
			return configError("%s is %v; give %v or more", f.name, f.d, f.min)
		}
	}
	return nil
}

func configError(format string, args ...any) error {
	return refused(fmt.Errorf("kafka.Config."+format, args...))
}

// refused marks err as a fault of the program or its settings.
func refused(err error) error {
	return fmt.Errorf("kafka source: %w: %w", framework.ErrConfig, err)
}

// instanceID is nil for an ordinary member.
func (c *Config) instanceID() *string {
	if c.InstanceID == "" {
		return nil
	}
	return &c.InstanceID
}
