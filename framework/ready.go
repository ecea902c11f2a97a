package framework

import "fmt"

// Ready returns nil while the source has told what is assigned to this process,
// and all of that is claimed and worked on; otherwise it says what is missing. A
// process whose group has no partition for it is ready: it waits to take over. It
// may be called at any time, and is meant for health checks.
func (r *Runner) Ready() error { return r.ready() }

func (e *engine[W]) ready() error {
	if err := e.readyAtAll(); err != nil {
		return err
	}
	for _, lane := range e.status() {
		if lane.Phase != PhaseRunning {
			return e.laneNotReady(lane)
		}
	}
	return nil
}

func (e *engine[W]) readyAtAll() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.err != nil && e.draining:
		return e.err
	case e.draining:
		return fmt.Errorf("pipeline %q: it is being stopped", e.pipeline.name)
	case !e.assigned:
		return fmt.Errorf("pipeline %q: the source has not told yet which partitions are assigned to this process", e.pipeline.name)
	}
	return nil
}

func (e *engine[W]) laneNotReady(lane LaneStatus) error {
	if lane.Err != nil {
		return fmt.Errorf("pipeline %q: %s: %s: %w", e.pipeline.name, lane.TopicPartition, lane.Phase, lane.Err)
	}
	return fmt.Errorf("pipeline %q: %s: %s", e.pipeline.name, lane.TopicPartition, lane.Phase)
}
