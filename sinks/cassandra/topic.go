package cassandra

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// maxNameBytes bounds the names in a ledger key, far below the limit of a
// Cassandra key.
const maxNameBytes = 4096

// validateName refuses a name that cannot be part of a key. Names are never
// rewritten.
func validateName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: the %s has no name", framework.ErrConfig, what)
	case len(name) > maxNameBytes:
		return fmt.Errorf("%w: the name of the %s has %d bytes, at most %d are possible", framework.ErrConfig, what, len(name), maxNameBytes)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: the name of the %s, %q, is not valid UTF-8", framework.ErrConfig, what, name)
	}
	return nil
}

// Topic implements [framework.Sink]. The first start wins, by a conditional
// insert; what it stored is read back at SERIAL, so that a lost answer does not
// matter. A process whose consistency differs from the stored scope is refused:
// mixing two scopes would allow two owners.
func (s *Sink) Topic(ctx context.Context, pipeline, topic string, propose framework.TopicStart) (framework.TopicStart, error) {
	ctx, end, err := s.readyToSave(ctx)
	if err != nil {
		return framework.TopicStart{}, err
	}
	defer end()
	if err := (laneKey{pipeline: pipeline, topic: topic}).validate(); err != nil {
		return framework.TopicStart{}, err
	}
	scope := s.cql.consistency.String()
	stored, err := s.topicRow(ctx, pipeline, topic, topicRow{start: propose, scope: scope})
	if err != nil {
		return framework.TopicStart{}, fmt.Errorf("pipeline %q: topic %s: %w", pipeline, topic, err)
	}
	if stored.scope != scope {
		return framework.TopicStart{}, fmt.Errorf("pipeline %q: topic %s: %w: Config.Consistency is %s, but the pipeline began with %s; "+
			"every process must use the same one", pipeline, topic, framework.ErrConfig, scope, stored.scope)
	}
	return stored.start, nil
}

// topicRow stores propose unless something is stored, and returns what is.
func (e *engine) topicRow(ctx context.Context, pipeline, topic string, propose topicRow) (stored *topicRow, err error) {
	err = e.retry(ctx, func() (err error) {
		if stored, err = e.store.readTopic(ctx, pipeline, topic); err != nil || stored != nil {
			return err
		}
		// The answer is not believed: another process may have been faster, and
		// then its starts count, not ours.
		if err := e.store.insertTopic(ctx, pipeline, topic, propose); err != nil {
			return err
		}
		if stored, err = e.store.readTopic(ctx, pipeline, topic); err == nil && stored == nil {
			err = errors.New("the topic's row is not there yet")
		}
		return err
	})
	return stored, err
}

// topicRow is a row of the pipelines table.
type topicRow struct {
	start framework.TopicStart
	scope string
}

// readTopic reads at SERIAL, and returns nil when there is no row.
func (s *cqlStore) readTopic(ctx context.Context, pipeline, topic string) (*topicRow, error) {
	q, cancel := s.query(ctx, "SELECT cluster_id, topic_id, scope, starts FROM "+s.table(pipelinesTable)+
		" WHERE pipeline = ? AND topic = ?", pipeline, topic)
	defer cancel()
	var row topicRow
	var id gocql.UUID
	err := q.Consistency(s.consistency.serialRead()).Scan(&row.start.ClusterID, &id, &row.scope, &row.start.Starts)
	if errors.Is(err, gocql.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read topic: %w", err)
	}
	row.start.TopicID = offsetstore.TopicID(id)
	return &row, nil
}

// insertTopic inserts the row unless there is one.
func (s *cqlStore) insertTopic(ctx context.Context, pipeline, topic string, row topicRow) error {
	q, cancel := s.query(ctx, "INSERT INTO "+s.table(pipelinesTable)+
		" (pipeline, topic, cluster_id, topic_id, scope, starts) VALUES (?, ?, ?, ?, ?, ?) IF NOT EXISTS",
		pipeline, topic, row.start.ClusterID, gocql.UUID(row.start.TopicID), row.scope, row.start.Starts)
	defer cancel()
	if _, err := q.SerialConsistency(s.consistency.serial()).MapScanCAS(map[string]any{}); err != nil {
		return fmt.Errorf("store topic: %w", err)
	}
	return nil
}
