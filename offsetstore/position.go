package offsetstore

import (
	"encoding/hex"
	"fmt"
)

// TopicPartition names one partition of one topic. The zero value names
// nothing.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String returns topic/partition, for example "orders/3".
func (tp TopicPartition) String() string {
	return fmt.Sprintf("%s/%d", tp.Topic, tp.Partition)
}

// TopicID is the identity Kafka gives a topic when it is created. A topic that
// was deleted and made again under the same name has another one. The zero
// value means unknown, and is never treated as a mismatch.
type TopicID [16]byte

// IsZero reports whether the ID is unknown.
func (id TopicID) IsZero() bool { return id == TopicID{} }

// String returns the ID in hexadecimal, or "unknown".
func (id TopicID) String() string {
	if id.IsZero() {
		return "unknown"
	}
	return hex.EncodeToString(id[:])
}

// NoLeaderEpoch is the LeaderEpoch of a position whose epoch is not known,
// Kafka's own value for it.
const NoLeaderEpoch int32 = -1

// Position says where to continue in a partition.
type Position struct {
	// Offset is the next offset to read. It is 0 or more.
	Offset int64
	// LeaderEpoch is the epoch of the leader that wrote the record before
	// Offset, or NoLeaderEpoch. It lets the source notice a truncated log.
	LeaderEpoch int32
	// TopicID is the topic's identity, or zero when unknown. It lets the source
	// notice a topic that was deleted and made again.
	TopicID TopicID
}

// At returns a position at offset with nothing known of epoch and topic.
func At(offset int64) Position {
	return Position{Offset: offset, LeaderEpoch: NoLeaderEpoch}
}

// Range is the half-open range of offsets [From, To).
type Range struct{ From, To int64 }

// Contains reports whether offset lies in the range.
func (r Range) Contains(offset int64) bool { return r.From <= offset && offset < r.To }

// Empty reports whether no offset lies in the range.
func (r Range) Empty() bool { return r.To <= r.From }
