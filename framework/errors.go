package framework

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Errors of a save or a claim. Test for them with errors.Is.
var (
	// ErrFenced: another owner has claimed the partition. What became of the
	// save in question is the Outcome of its *SaveError.
	ErrFenced = errors.New("fenced: another owner has claimed the partition")
	// ErrTooLarge: the batch exceeds what the sink can save as one.
	ErrTooLarge = errors.New("batch too large for the sink")
	// ErrRefused: the sink refuses the batch for what it contains; saving it
	// again cannot help.
	ErrRefused = errors.New("batch refused by the sink")
	// ErrUnknown: it could not be found out whether the save took effect.
	ErrUnknown = errors.New("outcome of the save unknown")
	// ErrNotApplied: the save is durable, but could not be made visible in
	// time; the next claim does it. The Outcome is Saved, the claim spent.
	ErrNotApplied = errors.New("saved, but not applied in time")
	// ErrCorrupt: what the sink has stored contradicts itself or was changed
	// from outside. Nothing was written; an operator has to look.
	ErrCorrupt = errors.New("stored progress is damaged")
	// ErrUnavailable: the sink or source cannot be reached. Trying later may
	// help.
	ErrUnavailable = errors.New("unavailable")
	// ErrClosed: the sink was closed before or during the call.
	ErrClosed = errors.New("closed")
	// ErrConfig: the program or its settings are at fault; the text names the
	// setting. Trying again cannot help.
	ErrConfig = errors.New("configuration")
)

// Errors of a lane or a source.
var (
	// ErrNotOwner: the partition is not assigned to this process any more.
	ErrNotOwner = errors.New("partition not assigned to this process")
	// ErrOrder: the source delivered an offset below one it had delivered
	// before.
	ErrOrder = errors.New("records out of order")
	// ErrPanic: a handler, decoder or reduce function panicked.
	ErrPanic = errors.New("panic")
	// ErrDrainTimeout: a stop took longer than Config.DrainTimeout; what was not
	// saved will be done again by the next owner.
	ErrDrainTimeout = errors.New("drain timeout: unsaved work was given up, the next start does it again")
	// ErrDuplicatePipeline: two pipelines of one process have the same name.
	ErrDuplicatePipeline = errors.New("two pipelines have the same name")
)

// The conditions of a *PositionError.
var (
	// ErrBelowLogStart: the saved position is older than anything the log
	// holds: retention has removed records that were not processed.
	ErrBelowLogStart = errors.New("position below the start of the log")
	// ErrAboveLogEnd: the saved position lies beyond the log's end, or the
	// records before it were replaced: the log was truncated.
	ErrAboveLogEnd = errors.New("position above the end of the log")
	// ErrTopicRecreated: the topic was deleted and made again; the position
	// belongs to the old one.
	ErrTopicRecreated = errors.New("topic was deleted and created again")
)

// Outcome is what is known of a save that returned an error.
type Outcome uint8

// The outcomes.
const (
	Unknown  Outcome = iota // it may have taken effect, or may yet
	NotSaved                // it has not, and never will
	Saved                   // it is durable
)

// String returns the outcome in words.
func (o Outcome) String() string {
	return [...]string{"unknown", "not saved", "saved"}[o]
}

// SaveError is the error of [Claim].Save. Err wraps the reason: [ErrFenced],
// [ErrTooLarge], [ErrRefused], [ErrUnknown], [ErrNotApplied], [ErrCorrupt],
// [ErrClosed] or the storage's own error.
type SaveError struct {
	Outcome    Outcome
	ClaimSpent bool // the claim must not be used again; claim anew
	Err        error
}

// Error returns the outcome and the reason.
func (e *SaveError) Error() string {
	return fmt.Sprintf("save failed (outcome: %s): %v", e.Outcome, e.Err)
}

// Unwrap returns the reason.
func (e *SaveError) Unwrap() error { return e.Err }

// PositionError says that a position cannot be read from. Err is
// [ErrBelowLogStart], [ErrAboveLogEnd] or [ErrTopicRecreated].
type PositionError struct {
	TopicPartition offsetstore.TopicPartition
	Position       offsetstore.Position // the one that was asked for
	LogStart       int64                // the log's first offset, as far as known
	LogEnd         int64                // the log's next offset, as far as known
	TopicID        offsetstore.TopicID  // the topic's identity now
	Err            error
}

// Error returns the condition with its numbers, and what an operator can do: set
// [Config].BelowLogStart, move the position with the sink's [Resetter], or leave the
// old results alone and start under another name.
func (e *PositionError) Error() string {
	switch {
	case errors.Is(e.Err, ErrTopicRecreated):
		return fmt.Sprintf("%s: %v: the position %d belongs to topic ID %s, the topic is now %s; decide what to do with the old results, then move the position into the new topic by `lockstep reset` (or framework.Resetter, to an offset with topic ID %s), or start under a new pipeline name",
			e.TopicPartition, e.Err, e.Position.Offset, e.Position.TopicID, e.TopicID, e.TopicID)
	case errors.Is(e.Err, ErrBelowLogStart):
		return fmt.Sprintf("%s: %v: position %d, available %d..%d: the records between are gone (%d offsets); to go on without them set Config.BelowLogStart to PositionEarliest or PositionLatest, or move the position by `lockstep reset` (framework.Resetter)",
			e.TopicPartition, e.Err, e.Position.Offset, e.LogStart, e.LogEnd, e.LogStart-e.Position.Offset)
	default:
		return fmt.Sprintf("%s: %v: position %d, available %d..%d: the log was truncated; find out what became of the records, then move the position back by `lockstep reset` (framework.Resetter), or start under a new pipeline name",
			e.TopicPartition, e.Err, e.Position.Offset, e.LogStart, e.LogEnd)
	}
}

// Unwrap returns the condition.
func (e *PositionError) Unwrap() error { return e.Err }

// RecordError says that one record could not be processed. Err is the
// handler's or decoder's error, or wraps [ErrPanic].
type RecordError struct {
	Pipeline       string
	TopicPartition offsetstore.TopicPartition
	Offset         int64
	Stage          string // "decode", an operator such as "map" or "map to-minute", or "output"
	Attempts       int
	Err            error
}

// Error returns where it happened, why, and what it means.
func (e *RecordError) Error() string {
	return fmt.Sprintf("pipeline %q: %s@%d: %s failed after %s: %v (the position stays before this record until the cause is mended, its failure policy says otherwise, or `lockstep skip` passes over it)",
		e.Pipeline, e.TopicPartition, e.Offset, e.Stage, attempts(e.Attempts), e.Err)
}

// Unwrap returns the cause.
func (e *RecordError) Unwrap() error { return e.Err }

func attempts(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", n)
}

// LaneError says that a lane has failed for good, at which stage of its life,
// and at which position. It wraps the reason.
type LaneError struct {
	Pipeline       string
	TopicPartition offsetstore.TopicPartition
	Offset         int64  // the position saved last, -1 if it is not known
	Stage          string // "start", "claim", "process", "reduce" or "save"
	Err            error
}

// Error returns where and why, without repeating what the reason says itself.
func (e *LaneError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pipeline %q: %s", e.Pipeline, e.TopicPartition)
	if e.Offset >= 0 {
		fmt.Fprintf(&b, " at position %d", e.Offset)
	}
	fmt.Fprintf(&b, ": %s: %v", e.Stage, e.Err)
	return b.String()
}

// Unwrap returns the reason.
func (e *LaneError) Unwrap() error { return e.Err }

// PanicError is a recovered panic. It matches [ErrPanic].
type PanicError struct {
	Value any
	Stack []byte
}

func newPanic(v any) *PanicError { return &PanicError{Value: v, Stack: debug.Stack()} }

// Error returns the panic's value; the stack is in Stack, and in the log.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Is reports whether target is [ErrPanic].
func (e *PanicError) Is(target error) bool { return target == ErrPanic }

// Unwrap returns the panic's value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
