package kafkastore

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// retry runs try until it succeeds, fails for good, or the tries are used up. It
// names what was done in the error, and its kind.
func (s *Store) retry(ctx context.Context, what string, try func(context.Context) error) error {
	pauses := s.pauses()
	for n := 1; ; n++ {
		err := s.once(ctx, try)
		if err == nil {
			return nil
		}
		err = explain(err)
		if ctx.Err() != nil {
			return fmt.Errorf("kafkastore: %s: %w (%w)", what, context.Cause(ctx), err)
		}
		if n == s.cfg.Tries || !passes(err) {
			return fmt.Errorf("kafkastore: %s: %w", what, s.whyUnreachable(err))
		}
		wait := pauses.NextBackOff()
		s.cfg.Logger.Warn("kafkastore: "+what+" failed; trying again", "group", s.cfg.Group, "try", n, "of", s.cfg.Tries, "wait", wait, "error", err)
		if err := sleep(ctx, wait); err != nil {
			return fmt.Errorf("kafkastore: %s: %w", what, err)
		}
	}
}

// once is one try. The client asks one broker, in turns; while another of them can
// be reached, one that cannot says nothing yet.
func (s *Store) once(ctx context.Context, try func(context.Context) error) error {
	err := s.bounded(ctx, try)
	if notReached(err) && s.useReachable(ctx) {
		err = s.bounded(ctx, try)
	}
	return err
}

// useReachable has the client ask only those of Config.Brokers that can be reached
// now, and reports whether there are any.
func (s *Store) useReachable(ctx context.Context) bool {
	if s.client.UpdateSeedBrokers(s.cfg.Brokers...) != nil {
		return false // they were parsed before
	}
	var reachable []string
	for i, broker := range s.client.SeedBrokers() {
		err := s.bounded(ctx, func(ctx context.Context) error {
			_, err := broker.Request(ctx, kmsg.NewPtrApiVersionsRequest())
			return err
		})
		if err == nil {
			reachable = append(reachable, s.cfg.Brokers[i])
		}
	}
	return len(reachable) > 0 && s.client.UpdateSeedBrokers(reachable...) == nil
}

func (s *Store) bounded(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	return try(ctx)
}

// whyUnreachable lists the brokers instead of err if none could be reached.
func (s *Store) whyUnreachable(err error) error {
	if !notReached(err) {
		return err
	}
	if all := s.conns.allFailed(); all != nil {
		return all
	}
	return err
}

// pauses are Config's: each is the one before times the factor, without jitter,
// since what is configured is what is expected.
func (s *Store) pauses() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.Multiplier, b.RandomizationFactor = s.cfg.Pause, s.cfg.Factor, 0
	b.MaxInterval = math.MaxInt64
	b.Reset()
	return b
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
