package servers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	readyPause  = 200 * time.Millisecond // between two questions to a server that is starting
	tailTimeout = 10 * time.Second       // for reading its log
)

// backend is what runs a server: a process or a container. Its methods are
// called by one goroutine at a time. Each is a no-op where there is nothing to
// do.
type backend interface {
	start(context.Context) error // launches, without waiting until it answers
	stop(context.Context) error  // in order; returns when it has ended
	kill(context.Context) error  // at once; returns when it has ended
	exited() <-chan struct{}     // closed if it ends after start; nil if nobody can tell
	tail(context.Context) string // the end of its log
}

// Service is one server of a [Set]. Its address stays the same when it is
// stopped and started again, and so does its data. All methods may be called
// from several goroutines; one waits for the other.
type Service struct {
	name    string
	addr    string
	env     []string
	timeout time.Duration
	log     *slog.Logger
	ready   func(ctx context.Context, addr string) error

	mu      sync.Mutex
	backend backend
}

// Addr returns the server's host:port on loopback.
func (s *Service) Addr() string { return s.addr }

// Start starts the server after [Service.Stop] or [Service.Kill] and returns
// when it answers. One that runs already is only asked whether it answers. If
// it does not within the set's StartTimeout, or ends before, the error carries
// the end of its log, and the server is down.
func (s *Service) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	began := time.Now()
	if err := s.backend.start(ctx); err != nil {
		return fmt.Errorf("servers: cannot start %s: %w", s.name, err)
	}
	if err := s.waitReady(ctx); err != nil {
		return errors.Join(s.failed(ctx, err), s.backend.kill(context.WithoutCancel(ctx)))
	}
	s.log.Info("server is up", "server", s.name, "address", s.addr, "took", time.Since(began).Round(100*time.Millisecond))
	return nil
}

// Stop ends the server in order, as an operator would, and returns when it has
// ended. A server that takes longer than 30 seconds, or than ctx allows, is
// killed, which is an error.
func (s *Service) Stop(ctx context.Context) error { return s.end(ctx, "stop", s.backend.stop) }

// Kill ends the server at once, as a power cut would, and returns when it has
// ended.
func (s *Service) Kill(ctx context.Context) error { return s.end(ctx, "kill", s.backend.kill) }

func (s *Service) end(ctx context.Context, how string, end func(context.Context) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log.Debug("ending server", "server", s.name, "how", how)
	if err := end(ctx); err != nil {
		return fmt.Errorf("servers: %s %s: %w", how, s.name, err)
	}
	return nil
}

// waitReady asks until the server answers, ends, or the time is up.
func (s *Service) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("no good answer within %s", s.timeout))
	defer cancel()
	for {
		err := s.ready(ctx, s.addr)
		if err == nil {
			return nil
		}
		select {
		case <-s.backend.exited():
			return errors.New("it ended while it was starting")
		case <-ctx.Done():
			return fmt.Errorf("%w; the last one: %w", context.Cause(ctx), err)
		case <-time.After(readyPause):
		}
	}
}

// failed adds what the server said, unless the caller gave up on it.
func (s *Service) failed(caller context.Context, err error) error {
	err = fmt.Errorf("servers: %s at %s did not come up: %w", s.name, s.addr, err)
	if caller.Err() != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(caller, tailTimeout)
	defer cancel()
	return fmt.Errorf("%w\nend of its log:\n%s", err, s.backend.tail(ctx))
}

// sleep waits for d, or until ctx ends, and then returns why.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
