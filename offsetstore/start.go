package offsetstore

import (
	"fmt"
	"time"
)

// StartKind is the closed set of ways to choose a first position.
type StartKind uint8

// The kinds of start rule.
const (
	StartEarliest  StartKind = iota // the log's first record; the zero value
	StartLatest                     // the log's end
	StartTimestamp                  // the first record not older than a time
	StartExact                      // a given offset
)

// StartRule says where a partition begins when the sink holds no position for
// it. The zero value is [Earliest]. Rules never apply where the sink has one.
type StartRule struct {
	kind   StartKind
	time   time.Time
	offset int64
}

// Earliest begins at the first record the log still holds.
func Earliest() StartRule { return StartRule{} }

// Latest begins at the end of the log as it is at the pipeline's first start.
func Latest() StartRule { return StartRule{kind: StartLatest} }

// Since begins at the first record whose timestamp is t or later, and at the
// log's end if there is none.
func Since(t time.Time) StartRule { return StartRule{kind: StartTimestamp, time: t} }

// Exact begins at offset, which must be 0 or more; [StartRules.Validate]
// refuses another. A source refuses an offset outside the log.
func Exact(offset int64) StartRule { return StartRule{kind: StartExact, offset: offset} }

// Kind returns which of the four rules this is.
func (r StartRule) Kind() StartKind { return r.kind }

// Time returns the time of a [Since] rule, else the zero time.
func (r StartRule) Time() time.Time { return r.time }

// Offset returns the offset of an [Exact] rule, else 0.
func (r StartRule) Offset() int64 { return r.offset }

// String returns the rule in words, for logs and errors.
func (r StartRule) String() string {
	switch r.kind {
	case StartLatest:
		return "latest"
	case StartTimestamp:
		return "since " + r.time.Format(time.RFC3339Nano)
	case StartExact:
		return fmt.Sprintf("offset %d", r.offset)
	default:
		return "earliest"
	}
}

// StartRules chooses a rule for each partition: the partition's own, else its
// topic's, else Default. The zero value starts everything at earliest.
type StartRules struct {
	Default    StartRule
	Topics     map[string]StartRule
	Partitions map[TopicPartition]StartRule
}

// For returns the rule of tp.
func (s StartRules) For(tp TopicPartition) StartRule {
	if r, ok := s.Partitions[tp]; ok {
		return r
	}
	if r, ok := s.Topics[tp.Topic]; ok {
		return r
	}
	return s.Default
}

// Validate refuses rules that no log could satisfy, naming the one at fault.
func (s StartRules) Validate() error {
	if err := s.Default.validate("the default"); err != nil {
		return err
	}
	for topic, r := range s.Topics {
		if err := r.validate("topic " + topic); err != nil {
			return err
		}
	}
	for tp, r := range s.Partitions {
		if err := r.validate("partition " + tp.String()); err != nil {
			return err
		}
	}
	return nil
}

func (r StartRule) validate(where string) error {
	if r.kind == StartExact && r.offset < 0 {
		return fmt.Errorf("offsetstore: start rule of %s: offset %d is negative; give 0 or more", where, r.offset)
	}
	if r.kind == StartTimestamp && r.time.IsZero() {
		return fmt.Errorf("offsetstore: start rule of %s: the time is zero; give the time to begin at", where)
	}
	// Kafka takes -1 and -2 milliseconds for the ends of the log.
	if r.kind == StartTimestamp && r.time.UnixMilli() < 0 {
		return fmt.Errorf("offsetstore: start rule of %s: the time %s lies before 1970, where Kafka has no times; use Earliest or Latest for the ends of the log", where, r.time.Format(time.RFC3339Nano))
	}
	return nil
}
