package framework

import (
	"time"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Hooks observe a runner, for metrics and tests. Each may be nil. They are
// called from the lanes' goroutines, for different partitions at once, and a
// lane waits for its hook: they must return soon.
type Hooks struct {
	// Claimed: a lane owns its partition and will read from Position.
	Claimed func(ClaimedEvent)
	// Saved: a batch is durable and visible.
	Saved func(SavedEvent)
	// Failed: a record was given up (Skip or DeadLetter). The lane goes on. It is not
	// saved yet: after a failed save the record is done again, and reported again.
	Failed func(FailedEvent)
	// Recovering: a lane could not save or claim, and will claim again.
	Recovering func(RecoveringEvent)
	// Ended: a lane has ended; Err is nil after a revoke, loss or stop.
	Ended func(EndedEvent)
	// Reached: a lane has come to one of the [Points]. It is for tests, which kill
	// the process there (package frameworktest does it in a line). Before a save it
	// is called from the goroutine that saves, while the lane goes on computing.
	Reached func(PointEvent)
}

// ClaimedEvent is given to Hooks.Claimed.
type ClaimedEvent struct {
	Pipeline       string
	TopicPartition offsetstore.TopicPartition
	Position       offsetstore.Position
}

// SavedEvent is given to Hooks.Saved.
type SavedEvent struct {
	Pipeline       string
	TopicPartition offsetstore.TopicPartition
	From, To       int64 // offsets; gaps are possible between them
	Records        int
	Writes         int
	Bytes          int           // as counted for the batch's limit
	Took           time.Duration // of Sink.Save
	Counters       Counters      // as saved
}

// FailedEvent is given to Hooks.Failed.
type FailedEvent struct {
	Err    *RecordError
	Action Action
}

// RecoveringEvent is given to Hooks.Recovering.
type RecoveringEvent struct {
	Pipeline       string
	TopicPartition offsetstore.TopicPartition
	Err            error
	Wait           time.Duration // before the next try
}

// EndedEvent is given to Hooks.Ended.
type EndedEvent struct {
	Pipeline       string
	TopicPartition offsetstore.TopicPartition
	Err            error
}

func notify[E any](hook func(E), event E) {
	if hook != nil {
		hook(event)
	}
}
