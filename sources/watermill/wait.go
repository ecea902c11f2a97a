package watermill

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// slow grows from 100 ms to 2 s.
func slow() backoff.BackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = 100*time.Millisecond, 2*time.Second
	return b
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
