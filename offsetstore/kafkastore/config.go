package kafkastore

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// ErrConfig says that the settings are at fault; the text names which. Trying again cannot
// help.
var ErrConfig = errors.New("configuration")

// Config says which group keeps the offsets of which topics. Brokers, Topics and
// Group are required; everything else has a default.
type Config struct {
	// Brokers are the first servers to ask, as host:port, by the rules of
	// [offsetstore.ParseBrokers]. Required.
	Brokers []string
	// Topics are those whose partitions [Store.Starts] returns. Required.
	Topics []string
	// Group is the consumer group that keeps the offsets. It must have no members.
	// Required.
	Group string
	// ClientID names this client in the servers' logs. Defaults to "lockstep".
	ClientID string
	// Defaults say where partitions begin for which nothing is committed. Defaults
	// to earliest for all.
	Defaults offsetstore.StartRules

	// Tries is how often a request, or the part of it that failed for reasons that
	// pass, is sent in all. Defaults to 3.
	Tries int
	// Pause is the wait before the second try. Defaults to 500 ms.
	Pause time.Duration
	// Factor is what the wait is multiplied with before each further try. Defaults
	// to 2.
	Factor float64
	// Timeout bounds one try. Defaults to 10 s.
	Timeout time.Duration

	// Logger is told of every try that failed. Defaults to slog.Default().
	Logger *slog.Logger
	// Options are further options of the client, for TLS and logins
	// (kgo.DialTLSConfig, kgo.SASL). Defaults to none.
	Options []kgo.Opt
}

// WithDefaults returns a copy in which every unset field has its default.
func (c Config) WithDefaults() Config {
	setDefault(&c.ClientID, "lockstep")
	setDefault(&c.Tries, 3)
	setDefault(&c.Pause, 500*time.Millisecond)
	setDefault(&c.Factor, 2)
	setDefault(&c.Timeout, 10*time.Second)
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
	if c.Brokers, err = offsetstore.ParseBrokers("Config.Brokers", strings.Join(c.Brokers, ",")); err != nil {
		return refused(err)
	}
	if c.Topics, err = offsetstore.ParseTopics("Config.Topics", strings.Join(c.Topics, ",")); err != nil {
		return refused(err)
	}
	if err := c.Defaults.Validate(); err != nil {
		return refused(fmt.Errorf("Config.Defaults: %w", err))
	}
	switch {
	case strings.TrimSpace(c.Group) == "":
		return refused(errors.New("Config.Group is empty; give the consumer group that keeps the offsets"))
	case c.Tries < 1:
		return refused(fmt.Errorf("Config.Tries is %d; give 1 or more", c.Tries))
	case c.Pause < 0:
		return refused(fmt.Errorf("Config.Pause is %v; give 0 or more", c.Pause))
	case c.Factor < 1:
		return refused(fmt.Errorf("Config.Factor is %v; give 1 or more", c.Factor))
	case c.Timeout < 0:
		return refused(fmt.Errorf("Config.Timeout is %v; give a positive one", c.Timeout))
	}
	return nil
}

func refused(err error) error { return fmt.Errorf("kafkastore: %w: %w", ErrConfig, err) }
