package kafkastore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// retry runs try until it succeeds, fails for good, or the tries are used up. It
// names what was done in the error, and its kind.
func (s *Store) retry(ctx context.Context, what string, try func(context.Context) error) error {
	pauses := s.pauses()
	for n := 1; ; n++ {
		err := explain(s.once(ctx, try))
		if err == nil {
			return nil
		}
		if ctx.Err() == nil && (n == s.cfg.Tries || !passes(err)) {
			return fmt.Errorf("kafkastore: %s: %w", what, s.whyUnanswered(ctx, err))
		}
		wait := pauses.NextBackOff()
		if ctx.Err() == nil {
			s.cfg.Logger.Warn("kafkastore: "+what+" failed; trying again", "group", s.cfg.Group, "try", n, "of", s.cfg.Tries, "wait", wait, "error", err)
		}
		if cause := sleep(ctx, wait); cause != nil {
			return fmt.Errorf("kafkastore: %s: %w (%w)", what, cause, err)
		}
	}
}

// once is one try. The client asks one broker, in turns; while another of them can
// be reached, one that cannot says nothing yet.
func (s *Store) once(ctx context.Context, try func(context.Context) error) error {
	for probed := false; ; probed = true {
		since := s.seeds.version.Load()
		err := s.bounded(ctx, try)
		for err != nil && ctx.Err() == nil && !answered(err) && s.seeds.changed(since) {
			// Another caller has changed whom the client asks, which ends connections.
			since = s.seeds.version.Load()
			err = s.bounded(ctx, try)
		}
		if probed || !notReached(err) {
			return err
		}
		if none := s.useReachable(ctx, since); none != nil {
			return none
		}
	}
}

func (s *Store) bounded(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	return try(ctx)
}

// whyUnanswered returns the list of all brokers instead of err if err is no answer of
// Kafka's and none of them answers: one that hangs or speaks TLS is reached, too.
func (s *Store) whyUnanswered(ctx context.Context, err error) error {
	var none *BrokersError
	if answered(err) || errors.As(err, &none) || !errors.As(s.useReachable(ctx, s.seeds.version.Load()), &none) {
		return err
	}
	return none
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
