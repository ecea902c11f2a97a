package cassandra

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// DropDeadLetters implements [framework.DeadLetterDropper], one letter after the
// other.
func (s *Sink) DropDeadLetters(ctx context.Context, pipeline string, tp offsetstore.TopicPartition, letters []framework.DeadLetter) error {
	ctx, end, err := s.ready(ctx)
	if err != nil {
		return err
	}
	defer end()
	lane := laneKey{pipeline: pipeline, topic: tp.Topic, partition: tp.Partition}
	if err := lane.validate(); err != nil {
		return err
	}
	for i := range letters {
		err := s.retry(ctx, func() error { return s.cql.dropDeadLetter(ctx, lane, &letters[i]) })
		if err != nil {
			return fmt.Errorf("%s: drop the dead letter of offset %d: %w", lane, letters[i].Offset, err)
		}
	}
	return nil
}

const deadKeyCondition = ledgerKeyCondition + " AND bucket = ? AND offset = ? AND stage = ?"

// dropDeadLetter deletes with the timestamp of the row that it has read. A save that
// wrote this row and is applied once more does not bring it back, since of equal
// timestamps the deletion wins; a later letter of the same record has a higher one,
// and stays.
func (s *cqlStore) dropDeadLetter(ctx context.Context, lane laneKey, d *framework.DeadLetter) error {
	key := []any{lane.pipeline, lane.topic, lane.partition, d.Offset / deadBucketOffsets, d.Offset, validText(d.Stage)}
	q, cancel := s.query(ctx, "SELECT WRITETIME(error) FROM "+s.table(deadTable)+deadKeyCondition+" AND failed_at = ? ALLOW FILTERING", append(slices.Clone(key), d.FailedAt.UnixMilli())...)
	defer cancel()
	var written int64
	err := q.Scan(&written)
	if errors.Is(err, gocql.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the row: %w", err)
	}
	drop, cancelDrop := s.query(ctx, "DELETE FROM "+s.table(deadTable)+" USING TIMESTAMP ?"+deadKeyCondition, append([]any{written}, key...)...)
	defer cancelDrop()
	return drop.Exec()
}
