package kafkastore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
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
	err := s.bounded(ctx, try)
	if !notReached(err) {
		return err
	}
	if none := s.useReachable(ctx); none != nil {
		return none
	}
	return s.bounded(ctx, try)
}

// useReachable has the client ask only those of Config.Brokers that answer now. If
// none does, the error lists them.
func (s *Store) useReachable(ctx context.Context) error {
	s.probing.Lock()
	defer s.probing.Unlock()
	if err := s.client.UpdateSeedBrokers(s.cfg.Brokers...); err != nil {
		return err
	}
	var reachable []string
	none := &BrokersError{}
	for i, err := range s.probe(ctx) {
		if err == nil {
			reachable = append(reachable, s.cfg.Brokers[i])
		} else {
			none.Brokers = append(none.Brokers, BrokerError{s.cfg.Brokers[i], err})
		}
	}
	if len(reachable) == 0 {
		return none
	}
	return s.client.UpdateSeedBrokers(reachable...)
}

// probe returns what keeps each of Config.Brokers from answering, nil if nothing does.
func (s *Store) probe(ctx context.Context) []error {
	errs := make([]error, len(s.cfg.Brokers))
	var all sync.WaitGroup
	for i, broker := range s.client.SeedBrokers() {
		all.Go(func() {
			errs[i] = s.bounded(ctx, func(ctx context.Context) error {
				_, err := broker.Request(ctx, kmsg.NewPtrApiVersionsRequest())
				return err
			})
		})
	}
	all.Wait()
	return errs
}

func (s *Store) bounded(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	return try(ctx)
}

// whyUnanswered returns the list of all brokers instead of err if err is no answer of
// Kafka's and none of them answers: one that hangs or speaks TLS is reached, too.
func (s *Store) whyUnanswered(ctx context.Context, err error) error {
	var answer *kerr.Error
	var none *BrokersError
	if errors.As(err, &answer) || errors.As(err, &none) || ours(err) || !errors.As(s.useReachable(ctx), &none) {
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
