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
// middle of requests, before and after these have taken effect, and over which for
// longer than its session nothing is heard from Kafka. Every record counts once.
func TestBadConnectionsLoseAndRepeatNothing(t *testing.T) {
	const records = 4000
	b := sharedBed(t, 4)
	toKafka, err := proxy.Kafka(servers.Kafka(t))
	must(t, err)
	t.Cleanup(func() { must(t, toKafka.Close()) })
	toCassandra, err := proxy.CQL(servers.Cassandra(t))
	must(t, err)
	t.Cleanup(func() { must(t, toCassandra.Close()) })
	bad := b.start(instance{
		kafka:     func(c *kafka.Config) { c.Dial = toKafka.Dial },
		cassandra: func(c *cassandra.Config) { c.Hosts = []string{toCassandra.Addr()} },
		framework: func(c *framework.Config) { c.BatchRecords = 50 },
	})
	good := b.start(instance{framework: func(c *framework.Config) { c.BatchRecords = 50 }})
	eventually(t, "both in the group", func() bool { return b.members() == 2 })

	var breaks breaker
	toKafka.On(breaks.decide)
	toCassandra.On(breaks.decide)
	sent := int64(0)
	for ; sent < records/2; sent += 20 {
		b.produceAll(20)
	}
	stalled := time.NewTimer(8 * time.Second) // more than the session
	toKafka.Stall()
	for ; sent < records; sent += 20 {
		b.produceAll(20)
	}
	<-stalled.C
	toKafka.Resume()
	for p := range int32(4) {
		b.await(p, "k", records, records)
	}
	t.Logf("%d connections were broken; the bad instance saved %d batches, the good one %d", breaks.count(), bad.saves(), good.saves())
	if breaks.count() == 0 {
		t.Error("no connection was broken")
	}
	toKafka.On(nil)
	toCassandra.On(nil)
	bad.end()
	good.end()
	for p := range int32(4) {
		b.want(p, "k", records, records)
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
// taken effect, a limited number of times.
type breaker struct {
	mu    sync.Mutex
	times int
}

func (b *breaker) decide(r proxy.Request) proxy.Action {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.Kind == "STARTUP" || r.Kind == "ApiVersions" || b.times >= 60 || rand.IntN(20) > 0 {
		return proxy.Pass
	}
	b.times++
	if b.times%2 == 0 {
		return proxy.CutBefore
	}
	return proxy.CutAfter
}

func (b *breaker) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.times
}
