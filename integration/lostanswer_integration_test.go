//go:build integration

package integration

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/integration/proxy"
	"github.com/lockstep-stream/lockstep/integration/servers"
	"github.com/lockstep-stream/lockstep/sinks/cassandra"
)

// What becomes of a commit whose answer says nothing: the ledger is read before
// anything else is done, what was saved is not saved again, and what was not is. The
// driver repeats nothing by itself. With its connection lost the partition is claimed
// again, which reads the ledger twice.
func TestACommitWithoutAnAnswerTakesEffectOnce(t *testing.T) {
	shared := sharedBed(t, 1)
	for name, c := range map[string]struct {
		fate proxy.Action
		sent []string // from the commit on
		void int      // commits that no Save returned nil for
	}{
		"applied, answered by a timeout":            {proxy.Replace(proxy.CASTimeout()), []string{"commit", "read"}, 0},
		"applied, answered as unknown":              {proxy.Replace(proxy.CASUnknown()), []string{"commit", "read"}, 0},
		"applied, connection cut":                   {proxy.CutAfter, []string{"commit", "read", "read"}, 1},
		"applied, answer swallowed":                 {proxy.DropAnswer, []string{"commit", "read"}, 0},
		"lost, answered by a timeout":               {proxy.Forge(proxy.CASTimeout()), []string{"commit", "read", "commit"}, 1},
		"lost, answered as unknown":                 {proxy.Forge(proxy.CASUnknown()), []string{"commit", "read", "commit"}, 1},
		"lost, connection cut":                      {proxy.CutBefore, []string{"commit", "read", "read", "commit"}, 1},
		"lost, answered as though none could start": {proxy.Forge(proxy.Unavailable()), []string{"commit", "read", "commit"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := shared.on(t, 1)
			w := newWatched(t)
			r := b.start(instance{cassandra: w.use})
			b.produce(0, "a", 1, 1)
			b.await(0, "a", 2, 2)
			w.arm(c.fate)
			b.produce(0, "a", 1, 1)
			b.await(0, "a", 4, 4)
			// The first commit after the fault, what it led to, and what came later.
			if sent := w.sinceArmed(); len(sent) < len(c.sent) || !slices.Equal(sent[:len(c.sent)], c.sent) || slices.Contains(sent[len(c.sent):], "read") {
				t.Errorf("sent were %q, want them to begin with %q", sent, c.sent)
			}
			r.end()
			if commits, saves := w.commits(), r.saves()+c.void; commits != saves {
				t.Errorf("%d commits were sent for %d saves", commits, r.saves())
			}
			if s := r.stats(); s.UnknownOutcomes != 1 || s.Fenced != 0 {
				t.Errorf("the sink counts %+v, want one unknown outcome", s)
			}
			b.want(0, "a", 4, 4)
		})
	}
}

// A commit that was given up as lost arrives after its repetition has taken effect,
// and after the save that followed. It changes nothing.
func TestACommitThatArrivesLateChangesNothing(t *testing.T) {
	b := sharedBed(t, 1)
	w := newWatched(t)
	r := b.start(instance{cassandra: w.use})
	at := int64(0)
	save := func(times int) {
		for range times {
			b.produce(0, "a", 1, 1)
			at += 2
			b.await(0, "a", at, at)
		}
	}
	save(1)
	for _, later := range []int{1, 3} {
		when := make(chan struct{})
		late, arrived := proxy.Later(when, proxy.CASTimeout())
		w.arm(late)
		save(later)
		if sent := w.sinceArmed(); len(sent) < 3 || !slices.Equal(sent[:3], []string{"commit", "read", "commit"}) {
			t.Errorf("sent were %q", sent)
		}
		close(when)
		eventually(t, "the commit that is late", func() bool { return isClosed(arrived) })
		b.want(0, "a", at, at)
		save(2)
	}
	r.end()
	if s := r.stats(); s.UnknownOutcomes != 2 || s.Fenced != 0 {
		t.Errorf("the sink counts %+v, want two unknown outcomes", s)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// While nobody can tell whether a batch was saved its partition stands still, and
// the others go on. When the ledger can be read again it is decided.
func TestAPartitionWaitsUntilItsOutcomeIsKnown(t *testing.T) {
	b := sharedBed(t, 2)
	w := newWatched(t)
	r := b.start(instance{cassandra: w.use})
	b.produce(0, "a", 1, 1)
	b.produce(1, "b", 1, 1)
	b.await(0, "a", 2, 2)
	b.await(1, "b", 2, 2)

	w.arm(proxy.Replace(proxy.CASTimeout()))
	w.failReads(true)
	b.produce(0, "a", 1, 1)
	eventually(t, "a second read of the ledger", func() bool { return slices.Index(w.sinceArmed(), "read") >= 0 && w.reads() > 1 })
	b.produce(0, "a", 1, 1)
	b.produce(1, "b", 1, 1, 1)
	b.await(1, "b", 5, 5)
	// What was committed is in the ledger, and not applied by anybody.
	if got := b.total(0, "a"); got != 2 {
		t.Errorf("the total is %d although it is not known whether the batch was saved", got)
	}
	w.failReads(false)
	b.await(0, "a", 6, 6)
	r.end()
	if commits := w.commits(); commits != r.saves() {
		t.Errorf("%d commits were sent for %d saves", commits, r.saves())
	}
	if s := r.stats(); s.UnknownOutcomes != 1 || s.Fenced != 0 {
		t.Errorf("the sink counts %+v, want one unknown outcome", s)
	}
}

// watched is a proxy of Cassandra that notes what is done to the ledger, and
// decides what becomes of the first commit after arm.
type watched struct {
	proxy *proxy.Proxy

	mu      sync.Mutex
	fate    proxy.Action
	armed   bool
	badRead bool
	count   int      // of commits
	since   []string // since it was armed
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	p, err := proxy.CQL(servers.Cassandra(t))
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{proxy: p}
	p.On(w.decide)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// use lets a sink reach Cassandra through the proxy. The shortest timeout is for
// answers that never come.
func (w *watched) use(c *cassandra.Config) {
	c.Hosts, c.Timeout = []string{w.proxy.Addr()}, 4*time.Second
}

func (w *watched) decide(r proxy.Request) proxy.Action {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case r.Kind != "EXECUTE" || !strings.Contains(r.Statement, "lockstep_ledger"):
		return proxy.Pass
	case strings.HasPrefix(r.Statement, "SELECT format, "):
		w.since = append(w.since, "read")
		if w.badRead {
			return proxy.Forge(proxy.ReadTimeout())
		}
	case strings.Contains(r.Statement, " SET seq = ?"):
		w.count++
		w.since = append(w.since, "commit")
		if w.armed {
			w.armed = false
			return w.fate
		}
	}
	return proxy.Pass
}

func (w *watched) arm(fate proxy.Action) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed, w.fate, w.since = true, fate, nil
}

func (w *watched) failReads(fail bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.badRead = fail
}

func (w *watched) sinceArmed() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.since)
}

func (w *watched) commits() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}

func (w *watched) reads() (n int) {
	for _, s := range w.sinceArmed() {
		if s == "read" {
			n++
		}
	}
	return n
}
