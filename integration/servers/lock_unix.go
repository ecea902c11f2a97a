//go:build unix

package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lockFile takes the lock named path, waiting for whoever has it. The system
// gives it back when this process ends, whatever happens.
func lockFile(ctx context.Context, path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("servers: no lock: %w", err)
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f.Close, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("servers: lock %s: %w", path, err), f.Close())
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return nil, errors.Join(fmt.Errorf("servers: another process holds %s: %w", path, err), f.Close())
		}
	}
}
