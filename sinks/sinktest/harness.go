package sinktest

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Harness describes a sink to the suite. All functions may be called from many
// goroutines.
type Harness[W any] struct {
	// Guarantee is what the author means to promise. It is compared with what
	// the sink says, and decides which cases are run. Its Note is ignored.
	Guarantee framework.Guarantee

	// Open returns a new, ready handle to the one store of this test, as a
	// newly started process would have it. The suite closes it.
	Open func(ctx context.Context) (framework.Sink[W], error)

	// Write returns a write that gives the row of key this value, whatever the
	// row held before.
	Write func(key, value string) W

	// Delete returns a write that removes the row of key. Optional.
	Delete func(key string) W

	// Rows reads the rows of these keys as any reader would see them, not
	// through a sink. Rows that do not exist are absent. It is called after almost
	// every save, so it should not read everything anew each time.
	Rows func(ctx context.Context, keys []string) (map[string]string, error)

	// DeadLetters reads the dead letters of tp in offset order. Required if the
	// guarantee includes them.
	DeadLetters func(ctx context.Context, pipeline string, tp offsetstore.TopicPartition) ([]framework.DeadLetter, error)

	// Refused returns a write that passes Check and that the storage still
	// refuses when it is saved, for example because it breaks a constraint.
	// Optional.
	Refused func(key string) W

	// Hold makes calls for tp wait as they do while another process is stopped in
	// the middle of a save: it takes the lock, or begins the transaction, that such a
	// process would hold, until release is called. tp was claimed before. Optional:
	// leave it out where no call ever waits for another process.
	Hold func(ctx context.Context, pipeline string, tp offsetstore.TopicPartition) (release func(), err error)

	// MaxBatch is the number of bytes of incompressible values that are
	// certainly too many for one save. 0 means that the sink has no such limit.
	MaxBatch int

	// BigBatch is the number of writes in the biggest batch that the suite
	// saves. Defaults to 5,000, so that the suite stays quick; the framework may
	// put as many records in a batch as its Config.BatchRecords says, which is
	// 200,000 by default, and each may have several writes.
	BigBatch int

	// Timeout bounds each case, so that a sink that hangs fails instead. It
	// decides nothing else. Defaults to 2 minutes.
	Timeout time.Duration
}

func (h Harness[W]) withDefaults() Harness[W] {
	if h.BigBatch == 0 {
		h.BigBatch = 5000
	}
	if h.Timeout == 0 {
		h.Timeout = 2 * time.Minute
	}
	return h
}

// validate names the field that is missing.
func (h Harness[W]) validate() error {
	switch {
	case h.Open == nil:
		return errors.New("sinktest: Harness.Open is missing")
	case h.Write == nil:
		return errors.New("sinktest: Harness.Write is missing")
	case h.Rows == nil:
		return errors.New("sinktest: Harness.Rows is missing")
	case h.Guarantee.DeadLetters && h.DeadLetters == nil:
		return errors.New("sinktest: Harness.DeadLetters is missing, but the guarantee includes dead letters")
	}
	return nil
}
