package customsink_test

import (
	"context"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// sinks/README.md shows the contract in short. Here the compiler sees to it that
// what is shown is the contract.

type (
	Position       = offsetstore.Position
	TopicPartition = offsetstore.TopicPartition
	Guarantee      = framework.Guarantee
	TopicStart     = framework.TopicStart
	Progress       = framework.Progress
	StateKey       = framework.StateKey
	StateEntry     = framework.StateEntry
	DeadLetter     = framework.DeadLetter
	Header         = framework.Header
	Outcome        = framework.Outcome
	Claim[W any]   = framework.Claim[W]
	Batch[W any]   = framework.Batch[W]
)

// snippet:start contract

type sink[W any] interface { // framework.Sink
	Guarantee() Guarantee
	Check(w W) (size int, err error)
	Topic(ctx context.Context, pipeline, topic string, propose TopicStart) (TopicStart, error)
	Claim(ctx context.Context, pipeline string, tp TopicPartition, start Position) (Claim[W], error)
	Close(ctx context.Context) error
}

type claimed[W any] interface { // framework.Claim
	Progress() Progress
	Load(ctx context.Context, keys []StateKey) ([][]byte, error)
	Save(ctx context.Context, b *Batch[W]) error
	Release(ctx context.Context) error
}

type batchOf[W any] struct { // framework.Batch: what one Save makes durable as one
	From, To    Progress     // {Position, Lane []byte}; From is what is stored, To what is to be
	Writes      []W          // in order
	State       []StateEntry // {StateKey, Value []byte}; a nil Value removes the key
	DeadLetters []DeadLetter // in the order of their offsets
}

type deadLetter struct { // framework.DeadLetter
	Offset              int64
	Stage, Error        string
	Attempts            int
	FailedAt, Timestamp time.Time // the second is the record's own
	Key, Value          []byte
	Headers             []Header // {Key string, Value []byte}
}

type saveError struct { // framework.SaveError: what Save returns unless all is stored
	Outcome    Outcome // framework.NotSaved, Saved or Unknown
	ClaimSpent bool
	Err        error
}

// snippet:end

var (
	_ sink[int]           = framework.Sink[int](nil)
	_ framework.Sink[int] = sink[int](nil)

	_ claimed[int]         = framework.Claim[int](nil)
	_ framework.Claim[int] = claimed[int](nil)

	_ = batchOf[int](framework.Batch[int]{})
	_ = saveError(framework.SaveError{})

	_ = struct {
		Position Position
		Lane     []byte
	}(Progress{})
	_ = struct {
		Operator string
		Window   int64
		Key      []byte
	}(StateKey{})
	_ = deadLetter(DeadLetter{})
	_ = struct {
		Key   string
		Value []byte
	}(Header{})
	_ = struct {
		Topic     string
		Partition int32
	}(TopicPartition{})
)
