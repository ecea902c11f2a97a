package kafka

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// repeatEvery is how often a warning that repeats is written at most.
const repeatEvery = 10 * time.Second

// logger writes to slog, for the source and for its client. Warnings with the
// same message are written once in repeatEvery, with the number held back.
type logger struct {
	*slog.Logger
	mu   sync.Mutex
	last map[string]*repeated
}

type repeated struct {
	at   time.Time
	held int
}

func newLogger(l *slog.Logger) *logger {
	return &logger{Logger: l, last: make(map[string]*repeated)}
}

// warn writes a warning unless the same message, about the same subject, was
// written a moment ago.
func (l *logger) warn(subject, msg string, args ...any) {
	l.mu.Lock()
	rep := l.last[subject+"\x00"+msg]
	if rep == nil {
		rep = new(repeated)
		l.last[subject+"\x00"+msg] = rep
	}
	now := time.Now()
	if !rep.at.IsZero() && now.Sub(rep.at) < repeatEvery {
		rep.held++
		l.mu.Unlock()
		return
	}
	held := rep.held
	rep.at, rep.held = now, 0
	l.mu.Unlock()
	if held > 0 {
		args = append(args, "held_back", held)
	}
	l.Warn(msg, args...)
}

// Level is part of kgo.Logger.
func (l *logger) Level() kgo.LogLevel {
	if l.Enabled(context.Background(), slog.LevelDebug) {
		return kgo.LogLevelInfo
	}
	return kgo.LogLevelWarn
}

// Log is part of kgo.Logger. What the client calls information is detail to us,
// and what it calls an error it will retry.
func (l *logger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	if level >= kgo.LogLevelInfo {
		l.Debug("kafka client: "+msg, keyvals...)
		return
	}
	l.warn("", "kafka client: "+msg, keyvals...)
}

// connErrors remembers why a broker could last not be reached: a request that
// ran into its deadline does not say.
type connErrors struct {
	mu   sync.Mutex
	last error
}

// OnBrokerConnect is part of kgo.HookBrokerConnect.
func (c *connErrors) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = err
}

func (c *connErrors) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}
