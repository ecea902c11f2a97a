package sourcetest

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Features says what a source can do. What it cannot is its declared limit, and
// no case asks for it.
type Features struct {
	// Log: the source knows the log itself. It begins at any position the log
	// holds, resolves start rules for every partition, and refuses positions
	// outside the log.
	Log bool
	// Retention: it notices that the log lost records it was about to read.
	Retention bool
	// TopicIDs: it notices that a topic was deleted and made again.
	TopicIDs bool
	// LeaderEpochs: it notices by the leader epoch that a log was cut.
	LeaderEpochs bool
	// Groups: the sources of one group share the partitions of a topic, and
	// partitions move when one comes or goes.
	Groups bool
	// Cooperative: partitions that stay where they are in a rebalance are not
	// interrupted. Needs Groups.
	Cooperative bool
	// WholeRecords: records keep key, timestamp and headers, these in order and
	// with repetitions, and nil differs from empty.
	WholeRecords bool
}

// Harness describes a source, and the log it reads, to one case. The functions
// are called from one goroutine, and return once what they did can be seen by
// any reader. What they start is ended by the test's cleanup.
type Harness struct {
	// Open returns a new source that will read all partitions of topic as a
	// member of group. The suite runs it.
	Open func(topic, group string) (framework.Source, error)

	// Create makes a topic with partitions 0 to n-1.
	Create func(ctx context.Context, topic string, partitions int32) error

	// Append writes records at the end of a partition. Their Offset and
	// LeaderEpoch mean nothing. The first record of a topic has offset 0, and each
	// further one the next, except after Gap.
	Append func(ctx context.Context, tp offsetstore.TopicPartition, records ...framework.Record) error

	// Gap makes offsets at the end of a partition that no reader is given, as an
	// aborted transaction or compaction does. Optional.
	Gap func(ctx context.Context, tp offsetstore.TopicPartition) error

	// Retain removes the records below offset start, as retention does. Required
	// with Features.Retention.
	Retain func(ctx context.Context, tp offsetstore.TopicPartition, start int64) error

	// Recreate deletes a topic and makes an empty one of the same name. Required
	// with Features.TopicIDs.
	Recreate func(ctx context.Context, topic string, partitions int32) error

	// Evict makes the group drop all its members without notice. Optional.
	Evict func(ctx context.Context, group string) error

	// Timeout bounds each case, so that a source that hangs fails instead. It
	// decides nothing else. Defaults to 1 minute.
	Timeout time.Duration
}

func (h Harness) withDefaults() Harness {
	if h.Timeout == 0 {
		h.Timeout = time.Minute
	}
	return h
}

// validate names the field that is missing.
func (h Harness) validate(f Features) error {
	switch {
	case h.Open == nil:
		return errors.New("sourcetest: Harness.Open is missing")
	case h.Create == nil:
		return errors.New("sourcetest: Harness.Create is missing")
	case h.Append == nil:
		return errors.New("sourcetest: Harness.Append is missing")
	case f.Retention && h.Retain == nil:
		return errors.New("sourcetest: Harness.Retain is missing, but the features include Retention")
	case f.TopicIDs && h.Recreate == nil:
		return errors.New("sourcetest: Harness.Recreate is missing, but the features include TopicIDs")
	case f.Cooperative && !f.Groups:
		return errors.New("sourcetest: Features.Cooperative needs Features.Groups")
	}
	return nil
}
