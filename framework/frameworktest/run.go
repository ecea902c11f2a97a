package frameworktest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
)

// RunUntilSaved runs r until the saved position of every partition of log has
// reached its end, then stops it, and returns what Run returned. If ctx ends
// first, or the runner stops by itself, the error says so.
func RunUntilSaved(ctx context.Context, r *framework.Runner, log *Log) error {
	runCtx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- r.Run(runCtx) }()
	for {
		select {
		case err := <-done:
			if err == nil && ctx.Err() != nil {
				err = fmt.Errorf("not everything was saved in time: %w", ctx.Err())
			} else if err == nil {
				err = errors.New("the runner stopped by itself")
			}
			return err
		case <-time.After(20 * time.Millisecond):
		}
		if saved(r, log) {
			stop()
			return <-done
		}
	}
}

func saved(r *framework.Runner, log *Log) bool {
	n := 0
	for _, lane := range r.Lanes() {
		if lane.Phase == framework.PhaseRunning && lane.Position.Offset >= log.End(lane.TopicPartition) {
			n++
		}
	}
	return n == len(log.Partitions())
}
