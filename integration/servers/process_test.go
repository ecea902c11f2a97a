package servers

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func shell(t *testing.T, script string) *process {
	t.Helper()
	dir := t.TempDir()
	p := &process{path: "/bin/sh", args: []string{"-c", script}, dir: dir, log: filepath.Join(dir, "log")}
	t.Cleanup(func() { _ = p.kill(context.Background()) })
	return p
}

func TestProcessLivesAgainAndKeepsItsLog(t *testing.T) {
	p := shell(t, "echo up; exec sleep 60")
	for lives, end := range []func(context.Context) error{p.stop, p.kill} {
		if err := p.start(t.Context()); err != nil {
			t.Fatal(err)
		}
		waitForLog(t, p, strings.TrimSuffix(strings.Repeat("up\n", lives+1), "\n"))
		if err := end(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-p.exited()
	}
}

func TestProcessIsKilledIfItDoesNotStop(t *testing.T) {
	p := shell(t, "trap '' TERM; echo up; while :; do sleep 0.05; done")
	if err := p.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitForLog(t, p, "up")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := p.stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	<-p.exited()
}

func TestProcessThatDoesNotRunHasNothingToEnd(t *testing.T) {
	p := shell(t, "true")
	if err := errors.Join(p.stop(t.Context()), p.kill(t.Context())); err != nil {
		t.Error(err)
	}
}

func TestProcessThatCannotStart(t *testing.T) {
	p := shell(t, "true")
	p.path = filepath.Join(p.dir, "none")
	if err := p.start(t.Context()); err == nil {
		t.Error("a program that is not there was started")
	}
}

// waitForLog waits until the whole log is text.
func waitForLog(t *testing.T, p *process, text string) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
		if p.tail(t.Context()) == text {
			return
		}
	}
	t.Fatalf("no %q in the log: %s", text, p.tail(t.Context()))
}
