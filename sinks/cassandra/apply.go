package cassandra

import (
	"bytes"
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// apply writes ms to their tables, and returns nil when all are acknowledged. It
// does not matter how often or by whom that is done: every mutation has its own
// timestamp, fixed before the commit, so the last state of each row is the same.
// No statement is sent once l is over: tombstones that guard the effect of later
// deletes may then be gone.
func (e *engine) apply(ctx context.Context, ms []mutation, l lease) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(e.tuning.laneInFlight)
	for _, group := range groups(ms, e.tuning.groupBytes, e.tuning.groupStatements) {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error { return e.applyGroup(ctx, group, l) })
	}
	return g.Wait()
}

// applyGroup writes one group, again after errors that may pass.
func (e *engine) applyGroup(ctx context.Context, group []mutation, l lease) error {
	size := 0
	for i := range group {
		size += group[i].size()
	}
	began, delays := e.clock.now(), e.clock.backoff(e.tuning.retryFirst, e.tuning.retryMost)
	for {
		err := e.flight(ctx, size, func() error {
			if err := l.over(); err != nil {
				return err
			}
			return e.store.apply(ctx, group)
		})
		switch {
		case err == nil:
			return nil
		// Not a matter of time, except that a part may be small enough.
		case invalid(err) && len(group) > 1:
			return e.applyHalves(ctx, group, l)
		case refusedForGood(err):
			return fmt.Errorf("Cassandra refuses a write that was accepted before the commit; was its table altered? %w", err)
		// Another group failed, the save was cancelled, or the sink closed.
		case context.Cause(ctx) != nil:
			return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
		if over := l.over(); over != nil {
			return fmt.Errorf("%w: %w", over, err)
		}
		e.waiting(began, "apply", err)
		if cause := e.clock.sleep(ctx, min(delays.NextBackOff(), l.left())); cause != nil {
			return fmt.Errorf("%w (%w)", cause, err)
		}
	}
}

// applyHalves writes a group in two parts: a server with a small
// max_mutation_size may refuse it only as a whole.
func (e *engine) applyHalves(ctx context.Context, group []mutation, l lease) error {
	half := len(group) / 2
	if err := e.applyGroup(ctx, group[:half], l); err != nil {
		return err
	}
	return e.applyGroup(ctx, group[half:], l)
}

// groups divides ms by Cassandra partition into groups of at most maxBytes (one
// mutation may exceed it alone) and maxStatements. Within a partition the order
// stays.
func groups(ms []mutation, maxBytes, maxStatements int) [][]mutation {
	sorted, ends := byPartition(ms)
	out := make([][]mutation, 0, len(ends)+len(ms)/maxStatements)
	start := 0
	for _, end := range ends {
		size := 0
		for i := start; i < end; i++ {
			n := sorted[i].size()
			if i > start && (size+n > maxBytes || i-start == maxStatements) {
				out = append(out, sorted[start:i])
				start, size = i, 0
			}
			size += n
		}
		out = append(out, sorted[start:end])
		start = end
	}
	return out
}

type partitionKey struct {
	target *boundTarget
	key    string
}

// byPartition returns ms with those of one partition next to each other, in
// order, and where each partition ends. It is a counting sort: two passes and no
// growing slice per partition, since many batches have one row a partition.
func byPartition(ms []mutation) (sorted []mutation, ends []int) {
	index := make(map[partitionKey]int32)
	of := make([]int32, len(ms))
	var last []byte
	for i := range ms {
		// Batches often have runs of one partition; those need no look-up.
		key := ms[i].partition()
		if i > 0 && ms[i].target == ms[i-1].target && bytes.Equal(key, last) {
			of[i] = of[i-1]
			ends[of[i]]++
			continue
		}
		last = key
		n, ok := index[partitionKey{ms[i].target, string(key)}]
		if !ok {
			n = int32(len(ends))
			index[partitionKey{ms[i].target, string(key)}] = n
			ends = append(ends, 0)
		}
		of[i] = n
		ends[n]++
	}
	if len(ends) == 1 {
		return ms, ends
	}
	// Turn the counts into places: where each partition's next mutation goes.
	next := make([]int, len(ends))
	for n, at := 0, 0; n < len(ends); n++ {
		next[n] = at
		at += ends[n]
		ends[n] = at
	}
	sorted = make([]mutation, len(ms))
	for i := range ms {
		sorted[next[of[i]]] = ms[i]
		next[of[i]]++
	}
	return sorted, ends
}
