package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
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
	ctx, cancel := context.WithTimeout(context.Background(), requestRetry)
	defer cancel()
	if !r.committing.acquire(ctx) {
		return false
	}
	defer r.committing.release()
	offsets := make(map[offsetstore.TopicPartition]offsetstore.Position)
	var sent []*partition
	for _, p := range ps {
		if pos, ok := p.takeMirror(); ok {
			offsets[p.tp] = pos
			sent = append(sent, p)
		}
	}
	if len(sent) == 0 {
		return true
	}
	answer := r.commit(ctx, offsets)
	all := true
	for _, p := range sent {
		err := answer.errorOf(p.tp)
		if err == nil {
			continue
		}
		all = false
		p.untakeMirror()
		if !rebalancing(err) {
			r.log.warn("", "could not mirror a saved position to the consumer group; lag tools lag behind", "topic", p.tp.Topic, "partition", p.tp.Partition, "error", err)
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

// turn lets one commit go at a time, so that an older position never follows a
// newer one.
type turn chan struct{}

func (t turn) acquire(ctx context.Context) bool {
	select {
	case t <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (t turn) release() { <-t }

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

// commit commits offsets as this member under its current generation. It does
// not use the client's own commit: when the group refuses that one because it
// has forgotten the member, the client joins again behind our back and keeps
// partitions that were not its own for a while.
func (r *run) commit(ctx context.Context, offsets map[offsetstore.TopicPartition]offsetstore.Position) committed {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = r.cfg.Group
	req.MemberID, req.Generation = r.cl.GroupMetadata()
	req.InstanceID = r.cfg.instanceID()
	names := make(map[offsetstore.TopicID]string)
	index := make(map[string]int)
	for tp, pos := range offsets {
		i, ok := index[tp.Topic]
		if !ok {
			i = len(req.Topics)
			index[tp.Topic] = i
			t := kmsg.NewOffsetCommitRequestTopic()
			t.Topic, t.TopicID = tp.Topic, r.topicID(tp.Topic) // old versions go by name, new ones by ID
			names[t.TopicID] = tp.Topic
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch = tp.Partition, pos.Offset, pos.LeaderEpoch
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
	}
	c := committed{generation: req.Generation, errs: make(map[offsetstore.TopicPartition]error, len(offsets))}
	resp, err := req.RequestWith(ctx, r.cl)
	if err != nil {
		c.err = err
		return c
	}
	for _, t := range resp.Topics {
		if t.Topic == "" {
			t.Topic = names[t.TopicID]
		}
		for _, p := range t.Partitions {
			c.errs[offsetstore.TopicPartition{Topic: t.Topic, Partition: p.Partition}] = kerr.ErrorForCode(p.ErrorCode)
		}
	}
	return c
}

func (r *run) topicID(topic string) offsetstore.TopicID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.topicIDs[topic]
}

// rebalancing reports whether the group could not answer because it is between
// two generations, or in a newer one that the client has not heard of yet.
func rebalancing(err error) bool {
	return errors.Is(err, kerr.RebalanceInProgress) || errors.Is(err, kerr.IllegalGeneration)
}
