package memory

import (
	"context"
	"fmt"
	"iter"

	"github.com/lockstep-stream/lockstep/framework"
)

// State returns the state of an operator, of all when it is "", as of one moment.
func (s *Sink[W]) State(ctx context.Context, pipeline, operator string) iter.Seq2[framework.StoredState, error] {
	return func(yield func(framework.StoredState, error) bool) {
		if err := s.mayRun(ctx); err != nil {
			yield(framework.StoredState{}, fmt.Errorf("memory: pipeline %q: state: %w", pipeline, err))
			return
		}
		for _, e := range s.store.allState(pipeline, operator) {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (s *Store[W]) allState(pipeline, operator string) []framework.StoredState {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []framework.StoredState
	for k, l := range s.lanes {
		if k.pipeline != pipeline {
			continue
		}
		for _, e := range l.entries() {
			if operator == "" || e.Operator == operator {
				all = append(all, framework.StoredState{TopicPartition: k.tp, StateEntry: e})
			}
		}
	}
	return all
}
