package cassandra

import (
	"strings"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
)

// deadBucketOffsets is how many offsets share a partition of the table of dead
// letters, so that none grows without bound. It is part of the stored format.
const deadBucketOffsets = 1000

// deadRow is a row of the table of dead letters.
type deadRow struct {
	Pipeline   string           `cql:"pipeline,partition"`
	Topic      string           `cql:"topic,partition"`
	Partition  int32            `cql:"partition,partition"`
	Bucket     int64            `cql:"bucket,partition"` // offset / deadBucketOffsets
	Offset     int64            `cql:"offset,clustering"`
	Stage      string           `cql:"stage,clustering"`
	Error      string           `cql:"error"`
	Attempts   int32            `cql:"attempts"`
	FailedAt   time.Time        `cql:"failed_at"`
	RecordTime time.Time        `cql:"record_time"`
	Key        Optional[[]byte] `cql:"key"`   // unset: the record has none
	Value      Optional[[]byte] `cql:"value"` // unset: a tombstone
	Headers    []deadHeader     `cql:"headers,type=frozen<list<tuple<text, blob>>>"`
}

// deadHeader is one header of the record.
type deadHeader struct {
	Key   string
	Value []byte
}

var deadRows = NewTable[deadRow](deadTable)

// deadWrite makes the write of a dead letter: it is saved and applied like the
// outputs of its batch.
func (c *claim) deadWrite(d *framework.DeadLetter) Write {
	row := deadRow{
		Pipeline: c.lane.pipeline, Topic: c.lane.topic, Partition: c.lane.partition,
		Bucket: d.Offset / deadBucketOffsets, Offset: d.Offset, Stage: validText(d.Stage),
		Error: validText(d.Error), Attempts: int32(d.Attempts), FailedAt: d.FailedAt, RecordTime: d.Timestamp,
		Key: optionalBytes(d.Key), Value: optionalBytes(d.Value), Headers: make([]deadHeader, len(d.Headers)),
	}
	for i, h := range d.Headers {
		row.Headers[i] = deadHeader{Key: validText(h.Key), Value: h.Value}
	}
	return deadRows.Insert(row)
}

// validText makes a text that Cassandra takes: an error's text may quote anything.
func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func optionalBytes(b []byte) Optional[[]byte] {
	if b == nil {
		return Optional[[]byte]{}
	}
	return Set(b)
}
