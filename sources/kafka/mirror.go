package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Mirror implements framework.Partition: it commits the position to the group
// in the background, one commit for all partitions in each MirrorInterval.
func (p *partition) Mirror(pos offsetstore.Position) {
	p.mu.Lock()
	if p.dead || pos.Offset < 0 {
		p.mu.Unlock()
		return
	}
	p.mirror, p.mirrored, p.unsent = pos, true, true
	p.mu.Unlock()
	p.run.mirrorSoon()
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
		if !r.commitMirrors(r.all()) {
			r.mirrorSoon()
		}
		select {
		case <-r.ctx.Done():
			return
		case <-time.After(r.cfg.MirrorInterval):
		}
	}
}

// commitMirrors commits what ps have to mirror, and reports whether the group
// accepted all of it. What it refused is sent again with the next commit.
func (r *run) commitMirrors(ps []*partition) bool {
	offsets := make(offsetMap)
	var sent []*partition
	for _, p := range ps {
		if pos, ok := p.takeMirror(); ok {
			put(offsets, p.tp, kgo.EpochOffset{Epoch: pos.LeaderEpoch, Offset: pos.Offset})
			sent = append(sent, p)
		}
	}
	if len(sent) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestRetry)
	defer cancel()
	answer := r.commit(ctx, offsets)
	all := true
	for _, p := range sent {
		if err := answer.errorOf(p.tp); err != nil {
			r.log.warn("", "could not mirror a saved position to the consumer group; lag tools lag behind", "topic", p.tp.Topic, "partition", p.tp.Partition, "error", err)
			all = false
			p.untakeMirror()
		}
	}
	return all
}

func (p *partition) takeMirror() (offsetstore.Position, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.unsent {
		return offsetstore.Position{}, false
	}
	p.unsent = false
	return p.mirror, true
}

func (p *partition) untakeMirror() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unsent = true
}

type offsetMap = map[string]map[int32]kgo.EpochOffset

// committed is the group's answer to a commit.
type committed struct {
	generation int32
	errs       map[offsetstore.TopicPartition]error
	err        error // there was no answer
}

func (c committed) errorOf(tp offsetstore.TopicPartition) error {
	if c.err != nil {
		return c.err
	}
	err, answered := c.errs[tp]
	if !answered {
		return fmt.Errorf("the commit of %s was not answered", tp)
	}
	return err
}

// commit commits offsets as this member under its current generation. While the
// group rebalances the client waits with it, within ctx.
func (r *run) commit(ctx context.Context, offsets offsetMap) (c committed) {
	c.errs = make(map[offsetstore.TopicPartition]error)
	r.cl.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			c.err = err
			return
		}
		c.generation = req.Generation
		topics := make(map[offsetstore.TopicID]string, len(req.Topics))
		for _, t := range req.Topics {
			topics[t.TopicID] = t.Topic
		}
		for _, t := range resp.Topics {
			if t.Topic == "" { // newer versions answer by ID
				t.Topic = topics[t.TopicID]
			}
			for _, p := range t.Partitions {
				c.errs[offsetstore.TopicPartition{Topic: t.Topic, Partition: p.Partition}] = kerr.ErrorForCode(p.ErrorCode)
			}
		}
	})
	return c
}
