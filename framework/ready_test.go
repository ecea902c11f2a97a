package framework_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/codec"
	"github.com/lockstep-stream/lockstep/framework/frameworktest"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/memory"
)

// joining is a source that has not been told yet what is its own.
type joining struct{ framework.Source }

func (joining) Run(ctx context.Context, _ framework.Lanes) error {
	<-ctx.Done()
	return nil
}

func readyRunner(t *testing.T, source framework.Source, sink framework.Sink[memory.Row]) (r *framework.Runner, stop func() error) {
	t.Helper()
	p, err := framework.NewPipeline("p", framework.Map(framework.From(codec.String()), func(s string) memory.Row {
		return memory.Row{Table: "t", Key: s, Value: s}
	}))
	if err != nil {
		t.Fatal(err)
	}
	r, err = framework.NewRunner(p, source, sink, framework.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Ready(); err == nil || !strings.Contains(err.Error(), `pipeline "p": the source has not told yet`) {
		t.Errorf("before Run: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	return r, func() error { cancel(); return <-ended }
}

func wantNotReady(t *testing.T, r *framework.Runner, words string) {
	t.Helper()
	synctest.Wait()
	if err := r.Ready(); err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("Ready returned %v, want %q", err, words)
	}
}

func TestReadyWhenTheSourceHasToldAndAllIsClaimed(t *testing.T) {
	store := memory.NewStore[memory.Row]()
	t.Run("a source that waits to join", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, stop := readyRunner(t, joining{}, store.Open(memory.Options[memory.Row]{}))
			wantNotReady(t, r, "has not told yet which partitions")
			if err := stop(); err != nil {
				t.Error(err)
			}
			wantNotReady(t, r, "is being stopped")
		})
	})
	t.Run("nothing assigned", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, stop := readyRunner(t, frameworktest.NewSource(frameworktest.NewLog()), store.Open(memory.Options[memory.Row]{}))
			synctest.Wait()
			if err := errors.Join(r.Ready(), stop()); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("a claim in flight", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			log := frameworktest.NewLog()
			log.Produce("in", 0, "a")
			hold := func(context.Context, string, offsetstore.TopicPartition) error { <-release; return nil }
			sink := store.Open(memory.Options[memory.Row]{Hooks: memory.Hooks[memory.Row]{BeforeClaim: hold}})
			r, stop := readyRunner(t, frameworktest.NewSource(log), sink)
			wantNotReady(t, r, "in/0: claiming")
			close(release)
			synctest.Wait()
			if err := errors.Join(r.Ready(), stop()); err != nil {
				t.Error(err)
			}
		})
	})
}

func TestNotReadyAfterAFailureSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := func(context.Context, string, offsetstore.TopicPartition) error { return framework.ErrConfig }
		log := frameworktest.NewLog()
		log.Produce("in", 0, "a")
		sink := memory.NewStore[memory.Row]().Open(memory.Options[memory.Row]{Hooks: memory.Hooks[memory.Row]{BeforeClaim: broken}})
		r, stop := readyRunner(t, frameworktest.NewSource(log), sink)
		synctest.Wait()
		if err := r.Ready(); !errors.Is(err, framework.ErrConfig) {
			t.Errorf("Ready returned %v, want the reason", err)
		}
		if err := stop(); !errors.Is(err, framework.ErrConfig) {
			t.Errorf("Run returned %v", err)
		}
	})
}
