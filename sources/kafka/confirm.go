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

// Confirm implements framework.Partition. The proof is a commit that the group
// accepts from this member under its current generation, together with the
// assignment of that generation. Committed is what was last mirrored, else where
// the partition was started; before the start there is nothing to commit, and a
// heartbeat under the generation takes its place.
func (p *partition) Confirm(ctx context.Context) error {
	ctx, done := p.scope(ctx)
	defer done()
	for {
		if p.isDead() {
			return p.notOwner()
		}
		got := p.prove(ctx)
		switch {
		case got.err == nil:
			if settled, err := p.settle(ctx, got.generation); settled {
				return err
			}
		case (rebalancing(got.err) || expelled(got.err)) && ctx.Err() == nil:
			// It is not decided yet. If the group has gone on without this member,
			// the client's own heartbeats find out, and the partition is lost. But a
			// client that learns it while it is joining just joins as a new member,
			// and the partition may be given to that one without a word: whoever had
			// believed that it is lost would leave it to nobody.
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		default:
			return p.unconfirmed(ctx, got.err)
		}
	}
}

func (p *partition) unconfirmed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return p.ended(fmt.Errorf("kafka source: %s: ownership could not be confirmed: %w", p.tp, err))
}

// proof is an answer of the group to this member, under a generation.
type proof struct {
	generation int32
	err        error
}

func (p *partition) prove(ctx context.Context) proof {
	r := p.run
	if !r.committing.acquire(ctx) {
		return proof{err: context.Cause(ctx)}
	}
	defer r.committing.release()
	pos, ok := p.commitable()
	if !ok {
		return r.heartbeat(ctx)
	}
	answer := r.commit(ctx, map[offsetstore.TopicPartition]offsetstore.Position{p.tp: pos})
	return proof{answer.generation, answer.errorOf(p.tp)}
}

// commitable is a position that is right to commit at any time: one that the
// sink has, the last mirrored one or where the partition was started.
func (p *partition) commitable() (offsetstore.Position, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mirror, p.mirrored || p.seeks > 0
}

// heartbeat asks whether the group knows this member under its generation.
func (r *run) heartbeat(ctx context.Context) proof {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group = r.cfg.Group
	req.MemberID, req.Generation = r.cl.GroupMetadata()
	req.InstanceID = r.cfg.instanceID()
	resp, err := req.RequestWith(ctx, r.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	return proof{req.Generation, err}
}

// settle decides what a proof under a generation says about the partition. It
// waits until the assignment of that generation has been reported, since only
// then it is known whether the partition is part of it.
func (p *partition) settle(ctx context.Context, generation int32) (bool, error) {
	for {
		p.mu.Lock()
		dead, revoking := p.dead, p.revoking
		p.mu.Unlock()
		r := p.run
		r.mu.Lock()
		reported, changed := r.generation, r.changed
		r.mu.Unlock()
		switch {
		case dead, revoking && reported < generation:
			return true, p.notOwner()
		case reported == generation:
			return true, nil
		case reported > generation:
			return false, nil // the group has moved on: ask again
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return true, p.unconfirmed(ctx, nil)
		}
	}
}

// expelled reports whether the group says that this process is not (or no
// longer) the member it claims to be. Only the client can tell what follows.
func expelled(err error) bool {
	return errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.FencedInstanceID)
}
