package watermill

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// ErrNoPosition says that a message does not tell where it stands in its topic,
// so that nobody could go on behind it. It comes with [framework.ErrConfig].
var ErrNoPosition = errors.New("message without position")

// UnmarshalError says that the subscriber's Unmarshaler has refused a record.
// Its partition stops there. Unmarshalers that refuse nothing, as Watermill's
// own, leave decoding to the pipeline, where failures have policies.
type UnmarshalError struct {
	TopicPartition offsetstore.TopicPartition
	Offset         int64
	Err            error
}

// Error returns which record it was, why, and what to do.
func (e *UnmarshalError) Error() string {
	return fmt.Sprintf("watermill source: %s@%d: the Unmarshaler refused the record: %v; let it pass such records and decode in the pipeline, where a failure policy can skip them or keep them as dead letters",
		e.TopicPartition, e.Offset, e.Err)
}

// Unwrap returns the Unmarshaler's error.
func (e *UnmarshalError) Unwrap() error { return e.Err }

// refused marks err as a fault of the program or its settings.
func refused(err error) error {
	if errors.Is(err, framework.ErrConfig) {
		return err
	}
	return fmt.Errorf("watermill source: %w: %w", framework.ErrConfig, err)
}

func configError(format string, args ...any) error { return refused(fmt.Errorf(format, args...)) }

func setDefault(field *time.Duration, value time.Duration) {
	if *field == 0 {
		*field = value
	}
}

func checkTime(name string, d time.Duration) error {
	if d < time.Millisecond {
		return configError("%s is %v; give 1ms or more, or leave it 0 for the default", name, d)
	}
	return nil
}
