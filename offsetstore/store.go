package offsetstore

import (
	"context"
	"fmt"
)

// Store keeps how far some topics were processed, apart from what the processing
// produced. So it can promise no more than at least once: outputs come first, then
// [Store].Save, and what happens between the two is done again after a crash. A
// framework.Sink, which keeps both as one, promises more.
//
// Methods may be called from many goroutines. A cancelled context makes a call
// return soon. Nothing given to a call is retained. The store retries what is
// temporary, within limits of its own; callers need not.
type Store interface {
	// Starts returns where every partition of the store's topics continues: where
	// the last saved range ended, else where a start rule puts it. An error means
	// that some partition's start is not known; none is guessed.
	Starts(ctx context.Context) (map[TopicPartition]Start, error)

	// Save stores the end of each range, with its metadata, as where its partition
	// continues. It neither compares nor fences: the last call wins. After an error
	// that is a *[SaveError] the partitions that it does not name are stored; after
	// any other error it is not known which are. Saving the same ranges again is
	// always right.
	Save(ctx context.Context, ranges ...PartitionRange) error
}

// PartitionRange is what was processed of one partition.
type PartitionRange struct {
	TopicPartition
	Range
	// Metadata is kept beside the offset, for people and tools.
	Metadata string
}

// Validate refuses ranges that no log could have, and two of one partition.
func Validate(ranges []PartitionRange) error {
	seen := map[TopicPartition]bool{}
	for _, r := range ranges {
		switch {
		case r.Topic == "" || r.Partition < 0:
			return fmt.Errorf("offsetstore: range of %q: topic or partition is missing", r.TopicPartition)
		case r.From < 0 || r.To < r.From:
			return fmt.Errorf("offsetstore: range of %s: [%d, %d) is no range of offsets", r.TopicPartition, r.From, r.To)
		case seen[r.TopicPartition]:
			return fmt.Errorf("offsetstore: two ranges of %s in one call; join them", r.TopicPartition)
		}
		seen[r.TopicPartition] = true
	}
	return nil
}

// Start is where a partition continues, and why there.
type Start struct {
	// Offset is the next offset to read.
	Offset int64
	// LeaderEpoch is the epoch that was saved with it, or NoLeaderEpoch.
	LeaderEpoch int32
	// Saved tells that it comes from the store. Otherwise Rule gave it.
	Saved    bool
	Metadata string    // as saved
	Rule     StartRule // if not Saved
	// PastEnd tells that Rule asks for a time that no record has reached yet, so
	// that Offset is the log's end.
	PastEnd bool
}

// String returns the offset and where it comes from, for logs.
func (s Start) String() string {
	switch {
	case s.Saved:
		return fmt.Sprintf("%d (saved)", s.Offset)
	case s.PastEnd:
		return fmt.Sprintf("%d (%s, which is past the last record: the log's end)", s.Offset, s.Rule)
	default:
		return fmt.Sprintf("%d (%s)", s.Offset, s.Rule)
	}
}

// SaveError says which partitions could not be saved. All others of the call are.
type SaveError struct {
	Failed []PartitionError
}

// Error lists every partition with its cause.
func (e *SaveError) Error() string {
	text := "some partitions could not be saved, all others are:"
	for i := range e.Failed {
		text += "\n  " + e.Failed[i].Error()
	}
	return text
}

// Unwrap returns the causes.
func (e *SaveError) Unwrap() []error {
	errs := make([]error, len(e.Failed))
	for i := range e.Failed {
		errs[i] = &e.Failed[i]
	}
	return errs
}

// PartitionError is what went wrong with one partition.
type PartitionError struct {
	TopicPartition TopicPartition
	Err            error
}

// Error names the partition and the cause.
func (e *PartitionError) Error() string { return fmt.Sprintf("%s: %v", e.TopicPartition, e.Err) }

// Unwrap returns the cause.
func (e *PartitionError) Unwrap() error { return e.Err }
