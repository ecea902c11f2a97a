package framework

import (
	"context"
	"iter"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Flusher is the optional power of a sink to finish what a dead owner left: a save
// that is durable and not yet visible in full. A sink whose saves are visible as
// soon as they are durable has nothing to finish, and need not have it.
type Flusher interface {
	// Flush makes every save of the partition that was committed before the call
	// visible. It claims nothing, and does not disturb an owner that lives. Where
	// nothing is stored for the partition the error wraps [ErrRefused].
	Flush(ctx context.Context, pipeline string, tp offsetstore.TopicPartition) error
}

// DeadLetterDropper is the optional power of a sink to remove dead letters with
// which somebody has dealt. It must not disturb running lanes.
type DeadLetterDropper interface {
	// DropDeadLetters removes the letters of one partition that are as given by
	// offset, stage and time of failure, as [DeadLetterLister] returned them. Others
	// stay, and one that is not there is no error: so a record that has failed again
	// since keeps its new letter. After an error some may be gone; calling again is
	// always right.
	DropDeadLetters(ctx context.Context, pipeline string, tp offsetstore.TopicPartition, letters []DeadLetter) error
}

// StateLister is the optional power of a sink to return what reductions have saved,
// for operators. It must not disturb running lanes.
type StateLister interface {
	// State returns the saved entries of one operator in all partitions of a
	// pipeline, of every operator where it is "", in any order. Each is as some save
	// has left it; where lanes are running, not all are as of the same one. After an
	// error nothing more follows. The sink must not be closed within the loop.
	State(ctx context.Context, pipeline, operator string) iter.Seq2[StoredState, error]
}

// StoredState is an entry of the state of one partition.
type StoredState struct {
	offsetstore.TopicPartition
	StateEntry
}
