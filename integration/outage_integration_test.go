//go:build integration

package integration

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/integration/servers"
	"github.com/lockstep-stream/lockstep/sinks/cassandra"
)

// A pipeline that is started before its database waits for it; it outlives the
// database's restart, and the broker's death under load. Nothing is done by hand,
// and every record counts once.
func TestAPipelineOutlivesItsServers(t *testing.T) {
	set, err := servers.Start(t.Context(), servers.Options{Kafka: true, Cassandra: true, FastStart: true, DurableCassandra: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	})
	b := newBed(t, set.Kafka.Addr(), set.Cassandra.Addr(), 2)

	must(t, set.Cassandra.Kill(t.Context()))
	impatient := b.on(t, 1).start(instance{cassandra: func(c *cassandra.Config) { c.StartWait = time.Second }})
	b.produce(0, "a", ones(10)...)
	var log lines
	r := b.start(instance{
		cassandra: func(c *cassandra.Config) { c.StartWait, c.Logger = patience, slog.New(slog.NewTextHandler(&log, nil)) },
		framework: func(c *framework.Config) { c.BatchRecords = 0 },
	})
	if err := impatient.wait(); !errors.Is(err, framework.ErrUnavailable) || !strings.Contains(err.Error(), set.Cassandra.Addr()) {
		t.Errorf("without a database the pipeline ended with %v, want %v that names the node", err, framework.ErrUnavailable)
	}
	eventually(t, "a line about the wait", func() bool { return log.count("waiting for the cluster") > 0 })
	must(t, set.Cassandra.Start(t.Context()))
	b.await(0, "a", 10, 10)

	must(t, set.Cassandra.Kill(t.Context()))
	b.produce(0, "a", ones(10)...)
	must(t, set.Cassandra.Start(t.Context()))
	b.await(0, "a", 20, 20)

	const load = 6000
	loaded := make(chan error, 1)
	go func() {
		var err error
		for sent := 0; sent < load && err == nil; sent += 20 { // acknowledged piece by piece, so that it lasts
			err = b.send(1, "b", ones(20)...)
		}
		loaded <- err
	}()
	eventually(t, "load", func() bool { return b.position(1) > load/10 })
	must(t, set.Kafka.Kill(t.Context()))
	must(t, set.Kafka.Start(t.Context()))
	if at := b.position(1); at >= load {
		t.Errorf("all %d records were saved before the broker came back: it was not under load", at)
	}
	must(t, <-loaded)
	b.await(1, "b", load, load)
	b.want(0, "a", 20, 20)
	r.end()
}

// The only node of a database acknowledges writes before they are on disk, and is
// killed under load: it forgets some. Whoever owns the partition goes on from what is left.
func TestTheDatabaseForgetsWhatItHadAcknowledged(t *testing.T) {
	set, err := servers.Start(t.Context(), servers.Options{Kafka: true, Cassandra: true, FastStart: true, Packages: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	})
	b := newBed(t, set.Kafka.Addr(), set.Cassandra.Addr(), 1)
	r := b.start(instance{framework: func(c *framework.Config) { c.BatchRecords = 0 }})
	stop, sent := make(chan struct{}), make(chan int64)
	go func() {
		n := int64(0)
		defer func() { sent <- n }()
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond): // a load that two cores carry
			}
			if err := b.send(0, "a", ones(20)...); err != nil {
				t.Error(err)
				return
			}
			n += 20
		}
	}()
	for range 3 {
		before := b.position(0)
		eventually(t, "load", func() bool { return b.position(0) > before+1000 })
		must(t, set.Cassandra.Kill(t.Context()))
		must(t, set.Cassandra.Start(t.Context()))
	}
	before := b.position(0)
	eventually(t, "load after the last start", func() bool { return b.position(0) > before+1000 })
	close(stop)
	n := <-sent
	b.await(0, "a", n, n)
	r.end()
}

// Two processes that are started together on an empty keyspace both create the
// tables, and both work with them.
func TestInstancesThatStartTogetherShareAnEmptyKeyspace(t *testing.T) {
	b := unmigratedBed(t, servers.Kafka(t), servers.Cassandra(t))
	b.connect()
	b.addTopic(2)
	var both errgroup.Group
	for range 2 {
		both.Go(func() error { return cassandra.Migrate(t.Context(), b.config) })
	}
	if err := both.Wait(); err != nil {
		t.Fatal(err)
	}
	first, second := b.start(instance{}), b.start(instance{})
	b.look()
	b.produce(0, "a", ones(10)...)
	b.produce(1, "b", ones(10)...)
	b.await(0, "a", 10, 10)
	b.await(1, "b", 10, 10)
	first.end()
	second.end()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ones(n int) []int64 {
	values := make([]int64, n)
	for i := range values {
		values[i] = 1
	}
	return values
}

// lines is a log that can be read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *lines) count(what string) int {
	return strings.Count(l.text(), what)
}
