package cassandra

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
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
	Headers    []deadHeader     `cql:"headers,type=frozen<list<tuple<blob, blob>>>"`
}

// deadHeader is one header of the record. Nothing makes its key valid text.
type deadHeader struct {
	Key   []byte
	Value *[]byte // nil is null, and kept apart from empty
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
	for i := range d.Headers {
		h := &d.Headers[i]
		row.Headers[i].Key = []byte(h.Key)
		if h.Value != nil {
			row.Headers[i].Value = &h.Value
		}
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

// DeadLetters returns the dead letters of one partition in offset order, for
// operators: it reads the whole table of dead letters, and holds what it returns
// in memory.
func (s *Sink) DeadLetters(ctx context.Context, pipeline string, tp offsetstore.TopicPartition) ([]framework.DeadLetter, error) {
	ctx, end, err := s.ready(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	lane := laneKey{pipeline: pipeline, topic: tp.Topic, partition: tp.Partition}
	var letters []framework.DeadLetter
	err = s.retry(ctx, func() (err error) {
		letters, err = s.cql.deadLetters(ctx, lane)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: read dead letters: %w", lane, err)
	}
	slices.SortFunc(letters, func(a, b framework.DeadLetter) int { return cmp.Compare(a.Offset, b.Offset) })
	return letters, nil
}

func (s *cqlStore) deadLetters(ctx context.Context, lane laneKey) ([]framework.DeadLetter, error) {
	q, cancel := s.query(ctx, "SELECT offset, stage, error, attempts, failed_at, record_time, key, value, headers FROM "+
		s.table(deadTable)+ledgerKeyCondition+" ALLOW FILTERING", lane.pipeline, lane.topic, lane.partition)
	defer cancel()
	iter := q.Consistency(s.consistency.monitor()).PageSize(deadPage).Iter()
	var letters []framework.DeadLetter
	for {
		// Into nil the driver would read an empty value as nil, like null.
		d := framework.DeadLetter{Key: []byte{}, Value: []byte{}}
		var headers []deadHeader
		if !iter.Scan(&d.Offset, &d.Stage, &d.Error, &d.Attempts, &d.FailedAt, &d.Timestamp, &d.Key, &d.Value, &headers) {
			break
		}
		for _, h := range headers {
			header := framework.Header{Key: string(h.Key)}
			if h.Value != nil {
				header.Value = notNull(*h.Value)
			}
			d.Headers = append(d.Headers, header)
		}
		letters = append(letters, d)
	}
	return letters, iter.Close()
}

// deadPage bounds the answer of one read of dead letters, in rows.
const deadPage = 100
