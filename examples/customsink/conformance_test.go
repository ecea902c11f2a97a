package customsink_test

import (
	"context"
	"sync"
	"testing"

	"github.com/lockstep-stream/lockstep/examples/customsink"
	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/sinktest"
)

// snippet:start conformance

func TestConformance(t *testing.T) {
	root := t.TempDir()
	open := func(context.Context) (framework.Sink[customsink.Write], error) { return customsink.Open(root) }
	var mu sync.Mutex
	table := customsink.NewTable(root)
	sinktest.Run(t, sinktest.Harness[customsink.Write]{
		Guarantee: framework.Guarantee{Level: framework.ExactlyOnce, State: true, DeadLetters: true},
		Open:      open,
		Write:     func(key, value string) customsink.Write { return customsink.Write{Key: key, Value: value} },
		Delete:    func(key string) customsink.Write { return customsink.Write{Key: key, Delete: true} },
		Rows: func(_ context.Context, keys []string) (map[string]string, error) {
			mu.Lock()
			defer mu.Unlock()
			found := map[string]string{}
			err := table.Refresh()
			for _, key := range keys {
				if value, ok := table.Rows[key]; ok {
					found[key] = value
				}
			}
			return found, err
		},
		DeadLetters: func(ctx context.Context, pipeline string, tp offsetstore.TopicPartition) ([]framework.DeadLetter, error) {
			sink, err := customsink.Open(root)
			if err != nil {
				return nil, err
			}
			return sink.DeadLetters(ctx, pipeline, tp)
		},
	})
}

// snippet:end
