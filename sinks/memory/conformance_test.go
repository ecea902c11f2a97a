package memory_test

import (
	"context"
	"errors"
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
	refuse := func(_ context.Context, _ string, _ offsetstore.TopicPartition, b *framework.Batch[memory.Row]) error {
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
			return store.Open(memory.Options[memory.Row]{Hooks: memory.Hooks[memory.Row]{BeforeSave: refuse}}), nil
		},
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
