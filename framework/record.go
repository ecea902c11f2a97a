package framework

import "time"

// Record is one record of a partition, as a source delivers it. Topic and
// partition belong to the lane, not to each record; a handler that needs them
// asks its [Context].
//
// The byte slices are read-only, and valid for as long as anyone holds them:
// a source never reuses their memory.
type Record struct {
	Offset      int64
	LeaderEpoch int32 // offsetstore.NoLeaderEpoch when unknown
	Timestamp   time.Time
	Key         []byte // nil: no key
	Value       []byte // nil: a tombstone
	Headers     []Header
}

// Header is one header of a record. Keys may repeat.
type Header struct {
	Key   string
	Value []byte
}

// recordOverhead is what one queued Record costs beside its bytes, for the
// byte bound of a lane.
const recordOverhead = 128

// size returns the memory a queued record is counted with, in bytes.
func (r *Record) size() int { return recordOverhead + r.payload() }

// payload returns the bytes of a record's key, value and headers.
func (r *Record) payload() int {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}
