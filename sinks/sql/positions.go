package sql

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
)

const selectPositions = `
	SELECT pipeline, topic, partition, next_offset, leader_epoch, topic_id, lane_data, owner, saved_at
	FROM lockstep_lane WHERE pipeline = ? OR ? = '' ORDER BY pipeline, topic, partition`

// Positions lists every stored position of pipeline, or of all when it is "". It
// reads beside the running lanes.
func (s *Sink) Positions(ctx context.Context, pipeline string) ([]framework.StoredPosition, error) {
	var positions []framework.StoredPosition
	err := s.call(ctx, func(ctx context.Context) error {
		rows, err := s.pools.read.QueryContext(ctx, inDialect(s.dialect, selectPositions), pipeline, pipeline)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			p, err := scanPosition(rows.Scan)
			if err != nil {
				return err
			}
			positions = append(positions, p)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("sql: positions: %w", err)
	}
	return positions, nil
}

func scanPosition(scan func(dest ...any) error) (framework.StoredPosition, error) {
	var p framework.StoredPosition
	var id []byte
	var savedAt stdsql.NullInt64
	err := scan(&p.Pipeline, &p.Topic, &p.Partition, &p.Position.Offset, &p.Position.LeaderEpoch, &id, &p.Lane, &p.Owner, &savedAt)
	if err != nil {
		return p, err
	}
	if savedAt.Valid {
		p.SavedAt = time.UnixMilli(savedAt.Int64)
	}
	p.Position.TopicID, err = topicID(id)
	return p, err
}
