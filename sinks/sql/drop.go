package sql

import (
	"context"
	"fmt"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

const dropDeadLetter = `
	DELETE FROM lockstep_dead_letter
	WHERE lane_id = (SELECT id FROM lockstep_lane WHERE pipeline = ? AND topic = ? AND partition = ?)
	AND record_offset = ? AND stage = ? AND failed_at = ?`

// DropDeadLetters removes the letters of tp that are as given, in one transaction.
func (s *Sink) DropDeadLetters(ctx context.Context, pipeline string, tp offsetstore.TopicPartition, letters []framework.DeadLetter) error {
	err := s.call(ctx, func(ctx context.Context) error {
		return s.writers.transaction(ctx, func(w *writer) error {
			for i := range letters {
				d := &letters[i]
				_, err := w.exec(ctx, dropDeadLetter, pipeline, tp.Topic, tp.Partition, d.Offset, s.dialect.clean(d.Stage), d.FailedAt.UnixMilli())
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("sql: pipeline %q: drop dead letters of %s: %w", pipeline, tp, err)
	}
	return nil
}
