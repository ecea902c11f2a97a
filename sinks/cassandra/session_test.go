package cassandra

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockstep-stream/lockstep/framework"
)

// unusedAddr returns an address that nothing listens on any more.
func unusedAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func unreachable(t *testing.T, wait time.Duration) *Config {
	t.Helper()
	cfg, err := Config{Hosts: []string{unusedAddr(t)}, Keyspace: "k", StartWait: wait,
		Logger: slog.New(slog.DiscardHandler)}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return &cfg
}

func TestAClusterThatDoesNotComeUpIsNamed(t *testing.T) {
	defer goleak.VerifyNone(t)
	cfg := unreachable(t, 300*time.Millisecond)
	_, err := openSession(t.Context(), cfg, new(links))
	if !errors.Is(err, framework.ErrUnavailable) || !strings.Contains(err.Error(), cfg.Hosts[0]) {
		t.Errorf("got %v, want ErrUnavailable that names %s", err, cfg.Hosts[0])
	}
}

func TestWaitingForAClusterEndsWithItsContext(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := openSession(ctx, unreachable(t, time.Hour), new(links))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the context's error", err)
	}
}

// firstLine calls seen when something is logged.
type firstLine struct {
	slog.Handler
	seen func(string)
}

func (h firstLine) Enabled(context.Context, slog.Level) bool { return true }

func (h firstLine) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelInfo {
		h.seen(r.Message)
	}
	return nil
}

func TestWaitingIsLogged(t *testing.T) {
	cfg := unreachable(t, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	var line string
	cfg.Logger = slog.New(firstLine{seen: func(s string) { line = s; cancel() }})
	_, err := openSession(ctx, cfg, new(links))
	if !errors.Is(err, context.Canceled) || !strings.Contains(line, "waiting for the cluster") {
		t.Errorf("logged %q, returned %v", line, err)
	}
}
