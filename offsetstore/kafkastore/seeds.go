package kafkastore

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// seeds are the brokers that the client asks first, of those in Config.Brokers.
type seeds struct {
	version atomic.Int64  // changes with them and with found, and is odd while they do
	lock    chan struct{} // holds an element while somebody changes what follows
	now     []string
	found   error // what the last probe has come to
}

// changed reports whether connections may have been ended since a version.
func (s *seeds) changed(since int64) bool { return since%2 == 1 || s.version.Load() != since }

// useReachable has the client ask only those of Config.Brokers that answer now. If
// none does, the error lists them. What another caller has found since a version is
// taken over.
func (s *Store) useReachable(ctx context.Context, since int64) error {
	select {
	case s.seeds.lock <- struct{}{}:
		defer func() { <-s.seeds.lock }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if s.seeds.changed(since) {
		return s.seeds.found
	}
	found := s.findReachable(ctx)
	if ctx.Err() != nil {
		return found // which others must not take for the brokers' fault
	}
	s.seeds.found = found
	s.seeds.version.Add(2)
	return found
}

func (s *Store) findReachable(ctx context.Context) error {
	if err := s.ask(s.cfg.Brokers); err != nil {
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
	return s.ask(reachable)
}

// ask changes whom the client asks, which ends connections.
func (s *Store) ask(brokers []string) error {
	if slices.Equal(s.seeds.now, brokers) {
		return nil
	}
	s.seeds.found, s.seeds.now = nil, brokers
	s.seeds.version.Add(1)
	defer s.seeds.version.Add(1)
	return s.client.UpdateSeedBrokers(brokers...)
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
