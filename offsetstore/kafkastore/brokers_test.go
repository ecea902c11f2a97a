package kafkastore_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lockstep-stream/lockstep/offsetstore/kafkastore"
)

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestWithoutAnyBrokerEachIsListed(t *testing.T) {
	b := newBed(t)
	dead := []string{closedPort(t), closedPort(t)}
	s := b.open(func(c *kafkastore.Config) { c.Brokers = dead })
	for what, err := range map[string]error{
		"Starts": func() error { _, err := s.Starts(t.Context()); return err }(),
		"Save":   s.Save(t.Context(), done(0, 0, 1, "")),
	} {
		var all *kafkastore.BrokersError
		if !errors.As(err, &all) || len(all.Brokers) != 2 {
			t.Errorf("%s: got %v, want a *BrokersError with both brokers", what, err)
			continue
		}
		for i, address := range dead {
			if all.Brokers[i].Address != address || !strings.Contains(err.Error(), address) || !strings.Contains(all.Brokers[i].Err.Error(), "refused") {
				t.Errorf("%s: %v does not say why %s cannot be reached", what, err, address)
			}
		}
	}
}

// A broker that accepts connections and says nothing is no better than none. Each try
// ends after Config.Timeout.
func TestBrokersThatHangAreListed(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, b *bed) {
		hang := func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			t.Cleanup(func() { there.Close() })
			return here, nil
		}
		s := b.open(func(c *kafkastore.Config) {
			c.Brokers, c.Timeout, c.Pause = []string{"one:1", "two:2"}, 5*time.Second, time.Second
			c.Options = []kgo.Opt{kgo.Dialer(hang)}
		})
		before := time.Now()
		_, err := s.Starts(t.Context())
		var all *kafkastore.BrokersError
		if !errors.As(err, &all) || len(all.Brokers) != 2 || !errors.Is(all.Brokers[1].Err, context.DeadlineExceeded) {
			t.Errorf("got %v, want a *BrokersError that says that time ran out", err)
		}
		// Three tries, two pauses, and the question which brokers answer at all.
		if took := time.Since(before); took > (5+1+5+2+5+5)*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// What speaks no Kafka is listed with what it said.
func TestBrokersThatAreNoneAreListed(t *testing.T) {
	b := newBed(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var hangUp sync.WaitGroup
	hangUp.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	})
	defer hangUp.Wait()
	defer l.Close()
	_, err = b.open(func(c *kafkastore.Config) { c.Brokers = []string{l.Addr().String()} }).Starts(t.Context())
	var all *kafkastore.BrokersError
	if !errors.As(err, &all) || all.Brokers[0].Address != l.Addr().String() {
		t.Errorf("got %v, want a *BrokersError that names %s", err, l.Addr())
	}
}

// A broker that answers is not listed, whatever it says.
func TestBrokersThatAnswerAreNotListed(t *testing.T) {
	b := newBed(t)
	b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.UnknownServerError, Count: -1})
	_, err := b.open(nil).Starts(t.Context())
	var all *kafkastore.BrokersError
	if !errors.Is(err, kerr.UnknownServerError) || errors.As(err, &all) {
		t.Errorf("got %v", err)
	}
}

// One live broker among dead ones is enough, and costs no try.
func TestOneLiveBrokerIsEnough(t *testing.T) {
	if err := newBed(t).openBesideDead(t).Save(t.Context(), done(0, 0, 1, "")); err != nil {
		t.Error(err)
	}
}

// Many callers that look for the live one at once do not get in each other's way.
func TestManyCallersFindTheLiveBroker(t *testing.T) {
	b := newBed(t)
	for range 5 {
		s := b.openBesideDead(t)
		var callers sync.WaitGroup
		for range 32 {
			callers.Go(func() {
				if _, err := s.Partitions(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		callers.Wait()
	}
}

// Nor does each of them wait until all others have found out that nobody is there.
func TestManyCallersFindTogetherThatNobodyIsThere(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, b *bed) {
		nobody := func(ctx context.Context, network, _ string) (net.Conn, error) {
			select {
			case <-time.After(5 * time.Second):
			case <-ctx.Done():
			}
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("no route to host")}
		}
		s := b.open(func(c *kafkastore.Config) {
			c.Brokers, c.Tries, c.Options = []string{"one:1", "two:2"}, 1, []kgo.Opt{kgo.Dialer(nobody)}
		})
		before := time.Now()
		var callers sync.WaitGroup
		for range 16 {
			callers.Go(func() {
				_, err := s.Partitions(t.Context())
				var all *kafkastore.BrokersError
				if !errors.As(err, &all) || len(all.Brokers) != 2 {
					t.Errorf("got %v, want a *BrokersError with both brokers", err)
				}
			})
		}
		callers.Wait()
		if took := time.Since(before); took > 30*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// openBesideDead returns a store with one try, whose last broker alone is there.
func (b *bed) openBesideDead(t *testing.T) *kafkastore.Store {
	t.Helper()
	return b.open(func(c *kafkastore.Config) {
		c.Brokers = []string{closedPort(t), closedPort(t), closedPort(t), b.cluster.ListenAddrs()[0]}
		c.Tries = 1
	})
}

func TestAClosedStoreSaysSo(t *testing.T) {
	s := newBed(t).open(nil)
	s.Close()
	if _, err := s.Starts(t.Context()); !errors.Is(err, kgo.ErrClientClosed) {
		t.Errorf("got %v", err)
	}
}
