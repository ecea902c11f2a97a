package watermill

import (
	"context"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Mirror implements framework.Partition: it commits the position to the group
// in the background, one commit for a session in each MirrorInterval.
func (p *partition) Mirror(pos offsetstore.Position) {
	p.mu.Lock()
	if p.dead || pos.Offset < 0 {
		p.mu.Unlock()
		return
	}
	p.mirror, p.unsent = pos, true
	p.mu.Unlock()
	p.r.mirrorSoon()
}

func (r *run) mirrorSoon() {
	select {
	case r.mirrors <- struct{}{}:
	default: // it is going to look anyway
	}
}

func (r *run) mirrorLoop() {
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-r.mirrors:
		}
		for _, ps := range r.bySession() {
			if !r.commitMirrors(ps) {
				r.mirrorSoon()
			}
		}
		if sleep(r.ctx, r.cfg.MirrorInterval) != nil {
			return
		}
	}
}

func (r *run) bySession() map[*session][]*partition {
	r.mu.Lock()
	defer r.mu.Unlock()
	groups := map[*session][]*partition{}
	for _, p := range r.parts {
		groups[p.session] = append(groups[p.session], p)
	}
	return groups
}

// mirrorTime bounds one commit: it is a courtesy to lag tools.
const mirrorTime = 5 * time.Second

// commitMirrors commits what the partitions of one session have to mirror, and
// reports whether the group accepted all of it.
func (r *run) commitMirrors(ps []*partition) bool {
	r.commits.Lock()
	defer r.commits.Unlock()
	var sent []*partition
	for _, p := range ps {
		if p.takeMirror() {
			sent = append(sent, p)
		}
	}
	if len(sent) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), mirrorTime)
	defer cancel()
	err := r.commit(ctx, sent)
	if err == nil {
		return true
	}
	for _, p := range sent {
		p.untakeMirror()
	}
	r.log.Warn("could not mirror saved positions to the consumer group; lag tools lag behind", "partitions", fmt.Sprint(sent), "error", err)
	return false
}

func (p *partition) takeMirror() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.unsent
	p.unsent = false
	return taken
}

func (p *partition) untakeMirror() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unsent = true
}

// commit commits positions as the member that the partitions are assigned to.
func (r *run) commit(ctx context.Context, ps []*partition) error {
	s := ps[0].session
	req := &sarama.OffsetCommitRequest{
		Version: 7, ConsumerGroup: r.cfg.Subscriber.ConsumerGroup, GroupInstanceId: r.cfg.instanceID(),
		ConsumerID: s.member, ConsumerGroupGeneration: s.generation,
	}
	for _, p := range ps {
		p.mu.Lock()
		pos := p.mirror
		p.mu.Unlock()
		req.AddBlockWithLeaderEpoch(p.tp.Topic, p.tp.Partition, pos.Offset, pos.LeaderEpoch, 0, "")
	}
	return r.atCoordinator(ctx, func(b *sarama.Broker) (sarama.KError, error) {
		resp, err := b.CommitOffset(req)
		if err != nil {
			return sarama.ErrNoError, err
		}
		return firstError(resp), nil
	})
}

func firstError(resp *sarama.OffsetCommitResponse) sarama.KError {
	for _, partitions := range resp.Errors {
		for _, err := range partitions {
			if err != sarama.ErrNoError {
				return err
			}
		}
	}
	return sarama.ErrNoError
}
