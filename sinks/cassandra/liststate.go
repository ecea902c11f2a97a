package cassandra

import (
	"context"
	"fmt"
	"iter"

	"github.com/lockstep-stream/lockstep/framework"
)

// State implements [framework.StateLister], for operators: it reads the whole table
// of state, a page at a time. A save that is committed and not yet applied is not
// in it.
func (s *Sink) State(ctx context.Context, pipeline, operator string) iter.Seq2[framework.StoredState, error] {
	return func(yield func(framework.StoredState, error) bool) {
		stopped := false
		err := s.eachState(ctx, pipeline, operator, func(e framework.StoredState) bool {
			stopped = !yield(e, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(framework.StoredState{}, fmt.Errorf("pipeline %q: read state: %w", pipeline, err))
		}
	}
}

func (s *Sink) eachState(ctx context.Context, pipeline, operator string, yield func(framework.StoredState) bool) error {
	ctx, end, err := s.ready(ctx)
	if err != nil {
		return err
	}
	defer end()
	var gens map[laneKey]int64
	err = s.retry(ctx, func() (err error) {
		gens, err = s.cql.generations(ctx, pipeline)
		return err
	})
	if err != nil {
		return err
	}
	return s.cql.eachState(ctx, pipeline, operator, gens, yield)
}

// generations returns which generation of its state each lane of a pipeline has.
func (s *cqlStore) generations(ctx context.Context, pipeline string) (map[laneKey]int64, error) {
	q, cancel := s.query(ctx, "SELECT topic, partition, gen FROM "+s.table(ledgerTable)+" WHERE pipeline = ? ALLOW FILTERING", pipeline)
	defer cancel()
	iter := q.Iter()
	gens := map[laneKey]int64{}
	lane, gen := laneKey{pipeline: pipeline}, int64(0)
	for iter.Scan(&lane.topic, &lane.partition, &gen) {
		gens[lane] = gen
	}
	if err := iter.Close(); err != nil {
		return nil, storeError(fmt.Errorf("read ledger: %w", err))
	}
	return gens, nil
}

// statePage bounds the answer of one read of the table of state, in rows.
const statePage = 1000

// eachState yields the rows that belong to the lanes' present generations. The
// driver's timeout bounds each page.
func (s *cqlStore) eachState(ctx context.Context, pipeline, operator string, gens map[laneKey]int64, yield func(framework.StoredState) bool) error {
	iter := s.session.Query("SELECT op, topic, partition, gen, win, key, v FROM "+s.table(stateTable)+
		" WHERE pipeline = ? ALLOW FILTERING", pipeline).WithContext(ctx).
		Consistency(s.consistency.quorum()).PageSize(statePage).Iter()
	for {
		var e framework.StoredState
		var gen int64
		if !iter.Scan(&e.Operator, &e.Topic, &e.Partition, &gen, &e.Window, &e.Key, &e.Value) {
			break
		}
		lane := laneKey{pipeline, e.Topic, e.Partition}
		if now, ok := gens[lane]; !ok || now != gen || operator != "" && operator != e.Operator {
			continue
		}
		e.Value = notNull(e.Value)
		if !yield(e) {
			return iter.Close()
		}
	}
	if err := iter.Close(); err != nil {
		return storeError(fmt.Errorf("read state: %w", err))
	}
	return nil
}
