//go:build integration && torture

package integration

import (
	"flag"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/integration/servers"
)

var tortureRounds = flag.Int("torture.rounds", 6, "how many times a node is killed")

// A million events, while processes are killed, fifty times.
func TestProcessesAreKilledFiftyTimes(t *testing.T) {
	newFleet(t).survive(1_000_000, 4000, 50)
}

// Three nodes hold a copy each. Again and again one of them is killed under load,
// stays away for a while, and comes back. The pipeline goes on without it: a quorum
// is left. Every record counts once.
func TestNodesAreKilledUnderLoad(t *testing.T) {
	set, err := servers.Start(t.Context(), servers.Options{
		Kafka: true, Cassandra: true, CassandraNodes: 3, DurableCassandra: true, FastStart: true, Packages: true,
	})
	must(t, err)
	t.Cleanup(func() { must(t, set.Close()) })
	var nodes []string
	for _, n := range set.CassandraNodes {
		nodes = append(nodes, n.Addr())
	}
	b := newBed(t, set.Kafka.Addr(), strings.Join(nodes, ","), 4)
	usual := instance{framework: func(c *framework.Config) { c.BatchRecords = 100 }}
	first, second := b.start(usual), b.start(usual)

	var load errgroup.Group
	n, stop := int64(0), make(chan struct{})
	load.Go(func() error {
		for ; !isClosed(stop); n += 10 {
			time.Sleep(20 * time.Millisecond)
			for p := range int32(4) {
				if err := b.send(p, "k", ones(10)...); err != nil {
					return err
				}
			}
		}
		return nil
	})
	b.moves("with all nodes up")
	for round := range *tortureRounds {
		victim := set.CassandraNodes[round%3]
		t.Logf("round %d: killing the node at %s, with partition 0 at %d", round, victim.Addr(), b.position(0))
		must(t, victim.Kill(t.Context()))
		b.moves("while a node is down")
		must(t, victim.Start(t.Context()))
		b.moves("after it is back")
	}
	close(stop)
	must(t, load.Wait())
	for p := range int32(4) {
		b.await(p, "k", n, n)
	}
	t.Logf("%d records on each partition, in %d and %d batches", n, first.saves(), second.saves())
	first.end()
	second.end()
	for p := range int32(4) {
		b.want(p, "k", n, n)
	}
}

// moves waits until every partition has been saved a few times more.
func (b *bed) moves(when string) {
	b.t.Helper()
	for p := range int32(4) {
		from := b.position(p)
		eventually(b.t, "progress "+when, func() bool { return b.position(p) > from+100 })
	}
}
