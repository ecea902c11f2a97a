package servers

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func shellService(t *testing.T, script string, ready func(context.Context, string) error) *Service {
	t.Helper()
	return &Service{
		name: "shell", addr: "127.0.0.1:1", timeout: 500 * time.Millisecond,
		log: slog.New(slog.DiscardHandler), ready: ready, backend: shell(t, script),
	}
}

func never(context.Context, string) error { return errors.New("not yet") }

func TestServiceThatDoesNotAnswerShowsItsLogAndIsDown(t *testing.T) {
	s := shellService(t, "echo the reason; exec sleep 60", never)
	err := s.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the reason") || !strings.Contains(err.Error(), "not yet") {
		t.Errorf("got %v", err)
	}
	if s.backend.(*process).current().running() {
		t.Error("it still runs")
	}
}

func TestServiceThatEndsShowsItsLogAtOnce(t *testing.T) {
	s := shellService(t, "echo the reason; exit 1", never)
	s.timeout = time.Hour
	err := s.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the reason") || !strings.Contains(err.Error(), "ended while it was starting") {
		t.Errorf("got %v", err)
	}
}

func TestServiceStartGivesUpWithItsContext(t *testing.T) {
	s := shellService(t, "exec sleep 60", never)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the user left"))
	if err := s.Start(ctx); err == nil || !strings.Contains(err.Error(), "the user left") {
		t.Errorf("got %v", err)
	}
}

func TestServiceStartsAgain(t *testing.T) {
	s := shellService(t, "exec sleep 60", func(context.Context, string) error { return nil })
	for _, call := range []func(context.Context) error{s.Start, s.Start, s.Kill, s.Stop, s.Start, s.Stop} {
		if err := call(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
