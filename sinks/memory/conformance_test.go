package memory_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/memory"
	"github.com/lockstep-stream/lockstep/sinks/sinktest"
)

// The value that the tests' storage refuses, to show what a refusal does.
const refusedValue = "refused by the storage"

func TestConformance(t *testing.T) {
	store := memory.NewStore[memory.Row]()
	locks := newLocks()
	await := func(ctx context.Context, pipeline string, tp offsetstore.TopicPartition) error {
		return locks.await(ctx, pipeline, tp.Topic)
	}
	save := func(ctx context.Context, pipeline string, tp offsetstore.TopicPartition, b *framework.Batch[memory.Row]) error {
		if err := await(ctx, pipeline, tp); err != nil {
			return err
		}
		for _, w := range b.Writes {
			if w.Value == refusedValue {
				return &framework.SaveError{Outcome: framework.NotSaved, Err: framework.ErrRefused}
			}
		}
		return nil
	}
	sinktest.Run(t, sinktest.Harness[memory.Row]{
		Guarantee: framework.Guarantee{Level: framework.ExactlyOnce, State: true, DeadLetters: true},
		Open: func(context.Context) (framework.Sink[memory.Row], error) {
			return store.Open(memory.Options[memory.Row]{Hooks: memory.Hooks[memory.Row]{
				BeforeTopic: locks.await, BeforeClaim: await, BeforeSave: save, BeforeRelease: await,
			}}), nil
		},
		Hold:  locks.hold,
		Write: func(key, value string) memory.Row { return memory.Row{Table: "rows", Key: key, Value: value} },
		Delete: func(key string) memory.Row {
			return memory.Row{Table: "rows", Key: key, Delete: true}
		},
		Refused: func(key string) memory.Row {
			return memory.Row{Table: "rows", Key: key, Value: refusedValue}
		},
		Rows: func(_ context.Context, keys []string) (map[string]string, error) {
			rows, found := memory.Rows(store, "rows"), map[string]string{}
			for _, key := range keys {
				if value, ok := rows[key]; ok {
					text, isText := value.(string)
					if !isText {
						return nil, errors.New("a row holds no text")
					}
					found[key] = text
				}
			}
			return found, nil
		},
		DeadLetters: func(_ context.Context, pipeline string, tp offsetstore.TopicPartition) ([]framework.DeadLetter, error) {
			return store.DeadLetters(pipeline, tp), nil
		},
	})
}

// locks make the calls for a topic wait, which the store by itself never does.
type locks struct {
	mu   sync.Mutex
	held map[[2]string]chan struct{} // by pipeline and topic; closed when let go
}

func newLocks() *locks { return &locks{held: map[[2]string]chan struct{}{}} }

func (l *locks) hold(_ context.Context, pipeline string, tp offsetstore.TopicPartition) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := make(chan struct{})
	l.held[[2]string{pipeline, tp.Topic}] = held
	return func() { close(held) }, nil
}

func (l *locks) await(ctx context.Context, pipeline, topic string) error {
	l.mu.Lock()
	held := l.held[[2]string{pipeline, topic}]
	l.mu.Unlock()
	if held == nil {
		return nil
	}
	select {
	case <-held:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
