package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/lockstep-stream/lockstep/framework"
)

// awaitTopics waits, before the group is joined, until the servers answer and
// know every topic. Servers are waited for as long as StartWait, topics as long
// as TopicWait from the first answer that lacked one.
func (r *run) awaitTopics(ctx context.Context) error {
	started := time.Now()
	pause := slow()
	var missing time.Time
	for {
		topics, err := r.tryDescribe(ctx)
		if err == nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			for name, info := range topics {
				r.topicIDs[name] = info.id
			}
			return nil
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case permanent(err):
			return explain(err)
		case !errors.Is(err, errNoTopic):
			missing = time.Time{}
			if time.Since(started) >= r.cfg.StartWait {
				return fmt.Errorf("kafka source: %w: no usable answer from %s within %v: %w; %s",
					framework.ErrUnavailable, strings.Join(r.cfg.Brokers, ", "), r.cfg.StartWait, err, advice(err))
			}
		case missing.IsZero():
			missing = time.Now()
		case time.Since(missing) >= r.cfg.TopicWait:
			return refused(err)
		}
		r.log.warn("", "waiting for Kafka", "brokers", r.cfg.Brokers, "waited", time.Since(started).Round(time.Second), "error", err)
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// tryDescribe is one attempt, short enough that the wait can be logged and
// bounded. When it runs out of time, the reason is what the last connection met.
func (r *run) tryDescribe(ctx context.Context) (map[string]topicInfo, error) {
	attempt, cancel := context.WithTimeout(ctx, min(r.cfg.StartWait, requestRetry))
	defer cancel()
	topics, err := r.describe(attempt, 0, r.cfg.Topics...)
	if err != nil && attempt.Err() != nil {
		if conn := r.conns.err(); conn != nil {
			err = conn
		}
	}
	for _, topic := range r.cfg.Topics {
		if err == nil {
			err = topics[topic].err
		}
	}
	return topics, err
}

func advice(err error) string {
	// A listener that wants TLS answers plain text with an alert. What the client
	// makes of that has no type.
	alert := strings.Contains(strings.ToLower(err.Error()), "tls")
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || alert {
		return "the brokers hang up: check kafka.Config.SASL and kafka.Config.TLS"
	}
	return "start the brokers, or correct kafka.Config.Brokers"
}

func sleep(ctx context.Context, pause backoff.BackOff) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause.NextBackOff()):
		return nil
	}
}
