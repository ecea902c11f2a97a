package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// watchTopics looks from time to time whether the topics are still the ones
// that are being read. Reading alone does not tell: the client takes a deleted
// topic for one that is about to appear, and asks for it silently for ever.
func (r *run) watchTopics() {
	tick := time.NewTicker(r.cfg.MetadataMaxAge)
	defer tick.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(r.ctx, requestRetry)
		topics, err := r.describe(ctx, 0, r.cfg.Topics...)
		cancel()
		if err != nil {
			continue // the client logs it, and reading shows the same
		}
		for _, p := range r.all() {
			p.compare(topics[p.tp.Topic])
		}
	}
}

var errOtherTopic = errors.New("the topic has another ID than the one that is being read")

// compare has the partition looked into if its topic is gone or another one.
func (p *partition) compare(info topicInfo) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case errors.Is(info.err, errNoTopic):
		p.suspend(info.err)
	case info.err == nil && differ(p.next.TopicID, info.id):
		p.suspend(errOtherTopic)
	}
}

// differ reports whether both identities are known and not the same.
func differ(a, b offsetstore.TopicID) bool { return !a.IsZero() && !b.IsZero() && a != b }
