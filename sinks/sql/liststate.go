package sql

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/lockstep-stream/lockstep/framework"
)

const selectState = `
	SELECT l.topic, l.partition, s.operator, s.win, s.key, s.value
	FROM lockstep_state s JOIN lockstep_lane l ON l.id = s.lane_id
	WHERE l.pipeline = ? AND (s.operator = ? OR ? = '')`

// State returns the state of an operator, of all when it is "", as of one moment.
// It reads beside the running lanes.
func (s *Sink) State(ctx context.Context, pipeline, operator string) iter.Seq2[framework.StoredState, error] {
	return func(yield func(framework.StoredState, error) bool) {
		err := s.call(ctx, func(ctx context.Context) error { return s.eachState(ctx, pipeline, operator, yield) })
		if err != nil && !errors.Is(err, errStopped) {
			yield(framework.StoredState{}, fmt.Errorf("sql: pipeline %q: state: %w", pipeline, err))
		}
	}
}

// errStopped: whoever asked wants no more.
var errStopped = errors.New("stopped")

func (s *Sink) eachState(ctx context.Context, pipeline, operator string, yield func(framework.StoredState, error) bool) error {
	rows, err := s.pools.read.QueryContext(ctx, inDialect(s.dialect, selectState), pipeline, operator, operator)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var e framework.StoredState
		if err := rows.Scan(&e.Topic, &e.Partition, &e.Operator, &e.Window, &e.Key, &e.Value); err != nil {
			return err
		}
		e.Value = notNil(e.Value)
		if !yield(e, nil) {
			return errStopped
		}
	}
	return rows.Err()
}
