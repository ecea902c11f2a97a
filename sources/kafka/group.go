package kafka

import (
	"context"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// The client calls onAssigned, onRevoked and onLost one at a time, from a
// goroutine of its own. Rebalances are not blocked while polling
// (BlockRebalanceOnPoll): that would stop the records of every partition for as
// long as the lanes of the revoked ones take to finish. What the blocking would
// give is kept by partition.deliver instead: from the moment a partition is
// being revoked nothing is delivered for it any more.

// onAssigned is called at the start of every session of the group, even when
// nothing was added. The client fetches nothing of the added partitions before
// it returns, so pausing them here keeps them silent until they are started.
func (r *run) onAssigned(_ context.Context, cl *kgo.Client, added map[string][]int32) {
	cl.PauseFetchPartitions(added)
	r.joinedOnce.Do(func() { close(r.joined) })
	if r.isLeaving() {
		return // nobody would read them
	}
	_, generation := cl.GroupMetadata()
	ps := make([]framework.Partition, 0, len(added))

	// A topic that was subscribed anew can be assigned again without having been
	// revoked. Its lane may have resumed it since the pause above.
	r.lose(r.lookup(added))
	cl.PauseFetchPartitions(added)

	r.mu.Lock()
	for _, tp := range sorted(added) {
		p := newPartition(r, tp)
		r.parts[tp] = p
		ps = append(ps, p)
	}
	r.generation = generation
	r.notify()
	r.mu.Unlock()

	if len(ps) > 0 {
		r.log.Info("partitions assigned", "partitions", names(ps), "generation", generation)
	}
	r.lanes.Assigned(ps)
}

// onCommitted sees what the group has committed for the added partitions. None
// of it decides anything: every partition is parked, paused, at an offset that
// needs no request to look up, until its lane starts it.
func (r *run) onCommitted(_ context.Context, fetched map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	for topic, offsets := range fetched {
		for number, offset := range offsets {
			if p := r.partition(topic, number); p != nil {
				p.setCommitted(offset.EpochOffset().Offset)
			}
			offsets[number] = kgo.NewOffset().At(0)
		}
	}
	return fetched, nil
}

// onRevoked gives the lanes time to finish, then publishes their last
// positions. Once it returns, the group may give the partitions to others.
func (r *run) onRevoked(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	r.revoke(r.lookup(lost))
}

// revoke gives partitions up in order, except those of which that is under way
// already.
func (r *run) revoke(ps []*partition) {
	ps = slices.DeleteFunc(ps, func(p *partition) bool { return !p.beginRevoke() })
	if len(ps) == 0 {
		return
	}
	r.mu.Lock()
	r.notify()
	r.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), r.revokeTime())
	defer cancel()
	r.log.Info("partitions revoked", "partitions", names(ps))
	r.lanes.Revoked(ctx, asPartitions(ps))
	for _, p := range ps {
		p.kill()
	}
	r.commitMirrors(ps)
	r.forget(ps)
}

// onLost drops partitions that the group has already taken away.
func (r *run) onLost(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	r.lose(r.lookup(lost))
}

func (r *run) lose(ps []*partition) {
	if len(ps) == 0 {
		return
	}
	for _, p := range ps {
		p.kill()
	}
	r.forget(ps)
	r.log.Warn("partitions lost: the group does not count this process as their owner any more", "partitions", names(ps))
	r.lanes.Lost(asPartitions(ps))
}

// forget removes dead partitions, unless a newer assignment took the place.
func (r *run) forget(ps []*partition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range ps {
		if r.parts[p.tp] == p {
			delete(r.parts, p.tp)
		}
	}
	r.notify()
}

func (r *run) partition(topic string, number int32) *partition {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.parts[offsetstore.TopicPartition{Topic: topic, Partition: number}]
}

// lookup returns the partitions of m that are ours, in order.
func (r *run) lookup(m map[string][]int32) []*partition {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ps []*partition
	for _, tp := range sorted(m) {
		if p := r.parts[tp]; p != nil {
			ps = append(ps, p)
		}
	}
	return ps
}

func (r *run) all() []*partition {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.parts))
}

func sorted(m map[string][]int32) []offsetstore.TopicPartition {
	var tps []offsetstore.TopicPartition
	for _, topic := range slices.Sorted(maps.Keys(m)) {
		for _, number := range slices.Sorted(slices.Values(m[topic])) {
			tps = append(tps, offsetstore.TopicPartition{Topic: topic, Partition: number})
		}
	}
	return tps
}

func asPartitions(ps []*partition) []framework.Partition {
	out := make([]framework.Partition, len(ps))
	for i, p := range ps {
		out[i] = p
	}
	return out
}

func names[P framework.Partition](ps []P) []string {
	out := make([]string, len(ps))
	for i, p := range ps {
		out[i] = p.TopicPartition().String()
	}
	return out
}
