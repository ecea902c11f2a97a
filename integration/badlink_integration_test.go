//go:build integration

package integration

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/integration/proxy"
	"github.com/lockstep-stream/lockstep/integration/servers"
	"github.com/lockstep-stream/lockstep/sinks/cassandra"
	"github.com/lockstep-stream/lockstep/sources/kafka"
)

// One of two instances reaches its servers over connections that break in the
// middle of requests, before and after these have taken effect, that lose an answer
// and stay, and over which for longer than its session nothing is heard from Kafka.
// Every record counts once.
func TestBadConnectionsLoseAndRepeatNothing(t *testing.T) {
	b := sharedBed(t, 4)
	toKafka, err := proxy.Kafka(servers.Kafka(t))
	must(t, err)
	t.Cleanup(func() { must(t, toKafka.Close()) })
	toCassandra, err := proxy.CQL(servers.Cassandra(t))
	must(t, err)
	t.Cleanup(func() { must(t, toCassandra.Close()) })
	bad := b.start(instance{
		kafka:     func(c *kafka.Config) { c.Dial = toKafka.Dial },
		cassandra: func(c *cassandra.Config) { c.Hosts, c.Timeout = []string{toCassandra.Addr()}, 4*time.Second },
		framework: func(c *framework.Config) { c.BatchRecords = 50 },
	})
	good := b.start(instance{framework: func(c *framework.Config) { c.BatchRecords = 50 }})
	sent := int64(0)
	more := func() { b.produceAll(20); sent += 20 }
	eventually(t, "work for the bad one", func() bool { more(); return bad.saves() > 0 })

	// Of a fetch, of a position's mirror, and of a write that is applied.
	breaks := breaker{lost: map[string]bool{"Fetch": true, "OffsetCommit": true, "BATCH": true}}
	toKafka.On(breaks.decide)
	toCassandra.On(breaks.decide)
	eventually(t, "cuts, and a lost answer of each kind", func() bool { more(); cuts, kept := breaks.count(); return cuts > 1 && kept == 0 })
	stalled := time.NewTimer(8 * time.Second) // more than the session
	toKafka.Stall()
	for range 100 {
		more()
	}
	<-stalled.C
	toKafka.Resume()
	for p := range int32(4) {
		b.await(p, "k", sent, sent)
	}
	t.Logf("the bad instance saved %d batches, the good one %d", bad.saves(), good.saves())
	toKafka.On(nil)
	toCassandra.On(nil)
	bad.end()
	good.end()
	for p := range int32(4) {
		b.want(p, "k", sent, sent)
	}
}

// produceAll appends n records to each of four partitions.
func (b *bed) produceAll(n int) {
	b.t.Helper()
	for p := range int32(4) {
		b.produce(p, "k", ones(n)...)
	}
}

// breaker cuts every twentieth request's connection or so, before or after it has
// taken effect, a limited number of times, and loses one answer of each kind that
// it is told.
type breaker struct {
	mu    sync.Mutex
	times int
	lost  map[string]bool // kinds of which none is lost yet
}

func (b *breaker) decide(r proxy.Request) proxy.Action {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost[r.Kind] {
		delete(b.lost, r.Kind)
		return proxy.DropAnswer
	}
	if r.Kind == "STARTUP" || r.Kind == "ApiVersions" || b.times >= 60 || rand.IntN(20) > 0 {
		return proxy.Pass
	}
	b.times++
	if b.times%2 == 0 {
		return proxy.CutBefore
	}
	return proxy.CutAfter
}

// count returns how many connections were cut, and of how many kinds no answer is
// lost yet.
func (b *breaker) count() (cuts, kept int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.times, len(b.lost)
}
