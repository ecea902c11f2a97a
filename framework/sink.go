package framework

import (
	"context"
	"time"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Sink stores a pipeline's outputs together with its positions. W is the type
// of one write, chosen by the sink; the framework never looks inside it.
//
// # The treaty
//
// A sink keeps, for each (pipeline, topic, partition), one position, the lane's
// own small data, and who owns it; besides, state and dead letters. Output rows
// belong to none of them: two partitions may write the same row. The names are kept
// byte for byte, never rewritten: "a-b" and "ab" are two pipelines. A pipeline's has
// up to 100 bytes, a topic's up to 249.
//
// Who retries: a sink may retry what its storage calls temporary, within
// limits of its own, and only so that an operation takes effect at most once.
// The framework never repeats a call with the same batch. After an error that
// spends the claim it claims again; nothing else tells the truth.
//
// What runs concurrently: all methods of a Sink may be called from many
// goroutines. On one [Claim], Save calls never overlap each other or Release;
// Load may overlap a Save, for keys that the save does not touch.
//
// What may be retained: nothing given to a call, after the call has returned, not
// even in its answer, which belongs to the caller.
//
// Contexts: a cancelled context makes a call return soon, also where it waits for
// another process, which may be stopped; it never leaves half of a batch behind. A
// call that was cut short says what is known of its outcome.
//
// Damage: what is stored and cannot be read, or contradicts itself, is
// [ErrCorrupt], never taken for nothing, and nobody goes on from it. A sink need
// not notice what was changed into something else that is valid.
//
// Close releases what the sink holds. Calls in flight have ended or end soon, with
// an error. Later ones return [ErrClosed], Save with the claim spent, except for
// Release, which may return nil. A second Close does nothing. Once Close has
// returned nil no save takes effect any more; if its context ends before that, it
// may return the context's error and leave the rest to end by itself.
//
// Methods will not be removed or changed; further powers come as one-method
// interfaces found by assertion, like [PositionLister].
type Sink[W any] interface {
	// Guarantee says what the sink promises. It is constant and needs no
	// connection.
	Guarantee() Guarantee

	// Check refuses a write that could never be saved (an empty key, a value
	// the column cannot hold, more bytes than a write may have) with an error
	// that says why, and returns the encoded size of any other in bytes. What it
	// accepts reads back unchanged. It is
	// pure and fast: it is called once for each write, so that the one record
	// that caused it can be named.
	Check(w W) (size int, err error)

	// Topic stores propose if nothing is stored yet for (pipeline, topic), and
	// returns what is stored: once set it never changes, whoever asks. It is
	// called before the first Claim of any partition of the topic.
	Topic(ctx context.Context, pipeline, topic string, propose TopicStart) (TopicStart, error)

	// Claim makes the caller the only owner of tp: when it returns, no save of
	// an earlier owner can take effect any more, and every save of an earlier
	// owner that did take effect is complete. It returns where to continue. If
	// there is no position yet, start is stored as the position first, so that
	// 0 differs from none and a restart begins where this start did.
	//
	// Claims of different partitions run in parallel. An error leaves the
	// ownership as it was or, if the answer was lost, with nobody: claiming
	// again is always allowed.
	Claim(ctx context.Context, pipeline string, tp offsetstore.TopicPartition, start offsetstore.Position) (Claim[W], error)

	Close(ctx context.Context) error
}

// Claim is the ownership of one partition by one lane, from [Sink.Claim] until
// Release, an error that spends it, or another owner's Claim.
type Claim[W any] interface {
	// Progress returns what was saved last, as of the claim; it does not follow
	// later saves.
	Progress() Progress

	// Load returns the saved value of each key, nil where there is none, in the
	// order of keys. It reflects every Save of this claim that has returned nil.
	// An error leaves the claim good. A claim that was fenced may still be
	// answered: what comes of it can never be saved.
	Load(ctx context.Context, keys []StateKey) ([][]byte, error)

	// Save makes all of b durable, or none of it: writes, state, dead letters
	// and position appear together. Nil means saved, complete and visible.
	// Otherwise the error is a *SaveError that says what is known of the
	// outcome and whether the claim is spent; any other error counts as Unknown
	// with the claim spent.
	//
	// b.From equals the To of the last Save of this claim, or Progress. A batch
	// whose From is not the stored position, at least in its offset, must not be
	// saved all the same: the outcome is NotSaved, and Err wraps [ErrCorrupt], so
	// that no record is blamed for it. Ownership comes first: a former owner's save is refused with
	// [ErrFenced], although the new owner has moved the position. Writes of
	// one row take effect in their order. A batch may be empty but for the
	// position, and To may equal From in everything but the lane data.
	Save(ctx context.Context, b *Batch[W]) error

	// Release gives the ownership up, so that a restart need not wait for
	// anything. It is a courtesy, never needed for safety. Where the claim was
	// fenced there is nothing to give up, and Release returns nil. The claim must
	// not be used afterwards, whatever Release returned.
	Release(ctx context.Context) error
}

// Progress is what a lane has saved: where to continue, and small data of its
// own (counters), opaque to the sink: a few hundred bytes or none, nil or empty.
type Progress struct {
	Position offsetstore.Position
	Lane     []byte
}

// Batch is what one Save makes durable as one.
type Batch[W any] struct {
	From, To    Progress
	Writes      []W          // in the order the handlers returned them
	State       []StateEntry // at most one entry a key
	DeadLetters []DeadLetter // in offset order, at most one an offset
}

// StateKey finds one value of a reduction within a claim's partition. Pipeline,
// topic and partition are the claim's. Window is 0 for a running total, else
// the window's start in milliseconds since 1970. A nil Key is the empty one.
type StateKey struct {
	Operator string
	Window   int64
	Key      []byte
}

// StateEntry is a value to store, whole; a nil Value removes the key, an empty one
// is a value.
type StateEntry struct {
	StateKey
	Value []byte
}

// DeadLetter is a record that the pipeline could not process, kept whole so
// that it can be inspected and replayed: nil and empty keys, values and header
// values are kept apart, and header keys may hold any bytes. Times are kept to the
// millisecond, in any year: a producer may send any timestamp, while JSON of a
// [time.Time] ends with the year 9999. The text of Error may be cleaned.
// Pipeline, topic and partition are the claim's.
type DeadLetter struct {
	Offset    int64
	Stage     string // where it failed, as in [RecordError]
	Error     string // the error's text; for a panic its value
	Attempts  int
	FailedAt  time.Time
	Timestamp time.Time // the record's own
	Key       []byte
	Value     []byte
	Headers   []Header
}

// TopicStart is what a pipeline's first start of a topic resolved: the topic's
// identity and where each partition that existed then begins. A partition that
// is not among Starts was born later and begins at earliest, whatever the
// start rules say, so that none of its records is missed.
type TopicStart struct {
	ClusterID string
	TopicID   offsetstore.TopicID
	Starts    map[int32]int64
}

// Level is how often an output can take effect.
type Level uint8

// The levels of guarantee.
const (
	// AtLeastOnce: after a crash outputs of already processed records may
	// take effect again.
	AtLeastOnce Level = iota
	// ExactlyOnce: outputs and position take effect together, and a former
	// owner is refused, so every record takes effect once.
	ExactlyOnce
)

// String returns the level in words.
func (l Level) String() string {
	if l == ExactlyOnce {
		return "effectively exactly once"
	}
	return "at least once"
}

// Guarantee is what a sink promises. A pipeline that needs more is refused when
// its runner is built.
type Guarantee struct {
	Level       Level
	State       bool   // it can hold the state of reductions
	DeadLetters bool   // it can hold dead letters
	Note        string // a condition the user should know, or ""
}

// PositionLister is the optional power of a sink to list all positions, for
// operators. It must not disturb running lanes.
type PositionLister interface {
	// Positions returns every stored position of pipeline, or of all pipelines
	// when it is "", ordered by pipeline, topic and partition.
	Positions(ctx context.Context, pipeline string) ([]StoredPosition, error)
}

// StoredPosition is one line of what [PositionLister] returns.
type StoredPosition struct {
	Pipeline string
	offsetstore.TopicPartition
	Progress
	Owner   string    // who claimed it last, "" after a release
	SavedAt time.Time // of the last save, zero if none
	Pending bool      // committed, and not yet known to be applied in full
}

// Resetter is the optional power of a sink to move a stored position on an
// operator's word: back, to do records again, or forth, to pass over them.
type Resetter interface {
	// Reset compares and sets. If what is stored is r.From, it becomes r.To, and
	// every claim made before is fenced: its next Save is refused with [ErrFenced]
	// and outcome NotSaved. If anything else is stored, or nothing, nothing
	// changes and the error wraps [ErrRefused] and says what is. A save that was
	// committed before and not yet made visible is made visible first.
	//
	// Rows, dead letters and the lane's own data stay as they are: rows of records
	// that are done again are written again, never removed. State stays too, unless
	// r.DropState: then all of the lane's state is gone with the same step, and
	// reductions begin anew. An error that wraps [ErrUnknown] says that the answer
	// was lost; [PositionLister] tells what is stored now.
	Reset(ctx context.Context, r Reset) error
}

// Reset is what [Resetter] is asked for.
type Reset struct {
	Pipeline string
	offsetstore.TopicPartition
	// From and To are compared and stored whole: offset, leader epoch and topic ID.
	// To should have the ID that the topic has now, which a [PositionError] tells:
	// without one it is taken for the topic of the pipeline's first start.
	From, To  offsetstore.Position
	DropState bool
}

// DeadLetterLister is the optional power of a sink to return the dead letters of
// one partition, for inspection and replay. It must not disturb running lanes.
type DeadLetterLister interface {
	// DeadLetters returns them in offset order.
	DeadLetters(ctx context.Context, pipeline string, tp offsetstore.TopicPartition) ([]DeadLetter, error)
}

// Migrator is the optional power of a sink to create what it needs in its
// database. It is idempotent, and safe when several processes run it at once.
type Migrator interface {
	Migrate(ctx context.Context) error
}

// HealthChecker is the optional power of a sink to say whether it can be
// reached now. It is cheap enough to be called every few seconds.
type HealthChecker interface {
	Health(ctx context.Context) error
}
