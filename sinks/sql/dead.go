package sql

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// deadLetterTable is written by upsert: a record that
// fails again, after an operator has moved the position back, replaces its letter.
var deadLetterTable = ownTable("lockstep_dead_letter", 2, "lane_id bigint", "record_offset bigint",
	"stage text", "error text", "attempts bigint", "failed_at bigint", "record_time bigint", "key bytea", "value bytea", "headers text")

const selectDeadLetters = `
	SELECT d.record_offset, d.stage, d.error, d.attempts, d.failed_at, d.record_time, d.key, d.key IS NULL, d.value, d.value IS NULL, d.headers
	FROM lockstep_dead_letter d JOIN lockstep_lane l ON l.id = d.lane_id
	WHERE l.pipeline = ? AND l.topic = ? AND l.partition = ?
	ORDER BY d.record_offset`

// storedHeader keeps a header as it was: keys may be any bytes, values nil.
type storedHeader struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

func (c *claim) deadLetterWrites(letters []framework.DeadLetter) ([]*Write, error) {
	clean := c.sink.dialect.clean
	writes := make([]*Write, len(letters))
	for i := range letters {
		d := &letters[i]
		headers, err := encodeHeaders(d.Headers)
		if err != nil {
			return nil, err
		}
		writes[i] = &Write{table: deadLetterTable.layout, op: opUpsert, values: []any{c.id, d.Offset, clean(d.Stage), clean(d.Error), d.Attempts,
			d.FailedAt.UnixMilli(), d.Timestamp.UnixMilli(), nonNil(d.Key), nonNil(d.Value), headers}}
	}
	return writes, nil
}

func encodeHeaders(headers []framework.Header) (string, error) {
	stored := make([]storedHeader, len(headers))
	for i, h := range headers {
		stored[i] = storedHeader{Key: []byte(h.Key), Value: h.Value}
	}
	text, err := json.Marshal(stored)
	return string(text), err
}

func decodeHeaders(text string) ([]framework.Header, error) {
	var stored []storedHeader
	if err := json.Unmarshal([]byte(text), &stored); err != nil {
		return nil, fmt.Errorf("%w: lockstep_dead_letter.headers: %w", framework.ErrCorrupt, err)
	}
	headers := make([]framework.Header, len(stored))
	for i, h := range stored {
		headers[i] = framework.Header{Key: string(h.Key), Value: h.Value}
	}
	return headers, nil
}

// DeadLetters returns the dead letters of tp in offset order, all of them in
// memory.
func (s *Sink) DeadLetters(ctx context.Context, pipeline string, tp offsetstore.TopicPartition) ([]framework.DeadLetter, error) {
	var letters []framework.DeadLetter
	err := s.call(ctx, func(ctx context.Context) error {
		rows, err := s.pools.read.QueryContext(ctx, inDialect(s.dialect, selectDeadLetters), pipeline, tp.Topic, tp.Partition)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			d, err := scanDeadLetter(rows.Scan)
			if err != nil {
				return err
			}
			letters = append(letters, d)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("sql: pipeline %q: dead letters of %s: %w", pipeline, tp, err)
	}
	return letters, nil
}

func scanDeadLetter(scan func(dest ...any) error) (framework.DeadLetter, error) {
	var d framework.DeadLetter
	var failedAt, recordTime int64
	var noKey, noValue bool
	var headers string
	err := scan(&d.Offset, &d.Stage, &d.Error, &d.Attempts, &failedAt, &recordTime, &d.Key, &noKey, &d.Value, &noValue, &headers)
	if err != nil {
		return d, err
	}
	d.Key, d.Value = restore(d.Key, noKey), restore(d.Value, noValue)
	d.FailedAt, d.Timestamp = time.UnixMilli(failedAt), time.UnixMilli(recordTime)
	d.Headers, err = decodeHeaders(headers)
	return d, err
}

// restore gives an empty value its difference from NULL back, which the driver
// loses on reading.
func restore(b []byte, null bool) []byte {
	if b == nil && !null {
		return []byte{}
	}
	return b
}
