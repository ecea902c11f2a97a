package framework

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Counters count the records of a lane since the pipeline first started there.
// They are saved with the position, so they are as exact as it is:
// Read = Passed + Filtered + Skipped + DeadLettered.
type Counters struct {
	Read         int64 // records processed: each offset once
	Passed       int64 // records that led to a write or a reduction
	Filtered     int64 // records that led to nothing, without a failure
	Skipped      int64 // records given up by ActionSkip
	DeadLettered int64 // records given up by ActionDeadLetter
	AlreadySaved int64 // records delivered again and ignored; not part of Read
	Lost         int64 // offsets passed over by the policy for a position below the log's start
}

// laneFormat is the first byte of a lane's data. A later format may only append.
const laneFormat = 1

func (c *Counters) fields() []*int64 {
	return []*int64{&c.Read, &c.Passed, &c.Filtered, &c.Skipped, &c.DeadLettered, &c.AlreadySaved, &c.Lost}
}

// encodeLane returns the lane data of a Progress.
func encodeLane(c Counters) []byte {
	b := []byte{laneFormat}
	for _, f := range c.fields() {
		b = binary.AppendUvarint(b, uint64(*f))
	}
	return b
}

// DecodeCounters reads the counters from the lane data of a saved [Progress].
// Nil gives zero counters: nothing was saved yet.
func DecodeCounters(lane []byte) (Counters, error) {
	var c Counters
	if len(lane) == 0 {
		return c, nil
	}
	if lane[0] != laneFormat {
		return c, fmt.Errorf("%w: lane data has format %d, this version knows %d", ErrCorrupt, lane[0], laneFormat)
	}
	rest := lane[1:]
	for _, f := range c.fields() {
		v, n := binary.Uvarint(rest)
		if n <= 0 || v > math.MaxInt64 {
			return Counters{}, fmt.Errorf("%w: lane data is cut short or damaged", ErrCorrupt)
		}
		*f, rest = int64(v), rest[n:]
	}
	return c, nil
}
