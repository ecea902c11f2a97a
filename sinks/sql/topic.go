package sql

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

const (
	insertTopic = `INSERT INTO lockstep_topic (pipeline, topic, cluster_id, topic_id, starts) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (pipeline, topic) DO NOTHING`
	selectTopic = `SELECT cluster_id, topic_id, starts FROM lockstep_topic WHERE pipeline = ? AND topic = ?`
)

// Topic stores propose unless something is stored already, and returns what is
// stored.
func (s *Sink) Topic(ctx context.Context, pipeline, topic string, propose framework.TopicStart) (framework.TopicStart, error) {
	var stored framework.TopicStart
	err := s.call(ctx, func(ctx context.Context) error {
		starts, err := json.Marshal(propose.Starts)
		if err != nil {
			return err
		}
		return s.writers.transaction(ctx, func(w *writer) error {
			_, err := w.exec(ctx, insertTopic, pipeline, topic, propose.ClusterID, propose.TopicID[:], string(starts))
			if err != nil {
				return err
			}
			stored, err = readTopic(ctx, w, pipeline, topic)
			return err
		})
	})
	if err != nil {
		return framework.TopicStart{}, fmt.Errorf("sql: pipeline %q: topic %s: %w", pipeline, topic, err)
	}
	return stored, nil
}

func readTopic(ctx context.Context, w *writer, pipeline, topic string) (framework.TopicStart, error) {
	var t framework.TopicStart
	var id []byte
	var starts string
	if err := w.scan(ctx, selectTopic, []any{pipeline, topic}, &t.ClusterID, &id, &starts); err != nil {
		return t, err
	}
	var err error
	if t.TopicID, err = topicID(id); err != nil {
		return t, err
	}
	if err := json.Unmarshal([]byte(starts), &t.Starts); err != nil {
		return t, fmt.Errorf("%w: lockstep_topic.starts: %w", framework.ErrCorrupt, err)
	}
	return t, nil
}

// topicID reads a stored topic ID.
func topicID(b []byte) (id offsetstore.TopicID, err error) {
	if copy(id[:], b) != len(id) || len(b) != len(id) {
		return id, fmt.Errorf("%w: a stored topic ID has %d bytes, not %d", framework.ErrCorrupt, len(b), len(id))
	}
	return id, nil
}
