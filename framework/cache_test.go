package framework_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/frameworktest"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/memory"
)

const totalBytes = 256 << 10

// bulky is a count that takes much room.
type bulky struct {
	n   uint64
	pad []byte
}

type bulkyCodec struct{}

func (bulkyCodec) Append(dst []byte, b bulky) ([]byte, error) {
	return append(binary.BigEndian.AppendUint64(dst, b.n), b.pad...), nil
}

func (bulkyCodec) Decode(data []byte, b *bulky) error {
	*b = bulky{binary.BigEndian.Uint64(data), append([]byte(nil), data[8:]...)}
	return nil
}

// counts is a sink that keeps of each total only the number, so that what is in
// memory is the framework's.
type counts struct {
	framework.Sink[row]
	mu    sync.Mutex
	n     map[string]uint64
	loads int
}

func (s *counts) Claim(ctx context.Context, pipeline string, tp offsetstore.TopicPartition, start offsetstore.Position) (framework.Claim[row], error) {
	c, err := s.Sink.Claim(ctx, pipeline, tp, start)
	return &countsClaim{c, s}, err
}

type countsClaim struct {
	framework.Claim[row]
	s *counts
}

func (c *countsClaim) Load(_ context.Context, keys []framework.StateKey) ([][]byte, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.loads += len(keys)
	values := make([][]byte, len(keys))
	for i, k := range keys {
		if n, ok := c.s.n[string(k.Key)]; ok {
			values[i] = append(binary.BigEndian.AppendUint64(nil, n), make([]byte, totalBytes)...)
		}
	}
	return values, nil
}

func (c *countsClaim) Save(ctx context.Context, b *framework.Batch[row]) error {
	state := b.State
	small := *b
	small.State = nil
	if err := c.Claim.Save(ctx, &small); err != nil {
		return err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for _, e := range state {
		c.s.n[string(e.Key)] = binary.BigEndian.Uint64(e.Value)
	}
	return nil
}

func bulkySum(t *testing.T) *framework.Pipeline[row] {
	t.Helper()
	pairs := framework.Map(framework.From(wires{}), func(w wire) framework.Keyed[string, bulky] {
		return framework.Keyed[string, bulky]{Key: w.k, Value: bulky{1, make([]byte, totalBytes)}}
	})
	add := func(a, b bulky) bulky { return bulky{a.n + b.n, a.pad} }
	totals := framework.ReduceByKey("bulky", pairs, add, framework.StateCodec[string, bulky](bulkyCodec{}))
	rows := framework.Map(totals, func(k framework.Keyed[string, bulky]) row { return row{Table: "n", Key: k.Key, Value: k.Value.n} })
	p, err := framework.NewPipeline("test", rows)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Large totals are bounded by their bytes, however few the keys; what is dropped is
// loaded again and counts on.
func TestMemoryOfLargeTotalsIsBounded(t *testing.T) {
	const keys, rounds, cached = 120, 2, 4 << 20
	log, store := frameworktest.NewLog(), memory.NewStoreKeeping[row](memory.KeepCounts)
	for range rounds {
		for i := range keys {
			log.Produce("in", 0, fmt.Sprintf("k%03d=1", i))
		}
	}
	var most uint64
	runtime.GC()
	before := heap()
	hooks := framework.Hooks{Saved: func(e framework.SavedEvent) {
		if e.To%keys == 0 {
			runtime.GC()
			most = max(most, heap()-before)
		}
	}}
	sink := &counts{Sink: store.Open(memory.Options[row]{}), n: map[string]uint64{}}
	r, err := framework.NewRunner(bulkySum(t), frameworktest.NewSource(log), sink, framework.Config{BatchRecords: 1, CacheBytes: cached, Hooks: hooks})
	if err != nil {
		t.Fatal(err)
	}
	if err := frameworktest.RunUntilSaved(t.Context(), r, log); err != nil {
		t.Fatal(err)
	}
	for key, n := range memory.Rows(store, "n") {
		if n != uint64(rounds) {
			t.Errorf("the total of %s is %v, want %d", key, n, rounds)
		}
	}
	if sink.loads != keys*rounds {
		t.Errorf("%d totals were loaded, want each of %d: the cache holds %d of %d bytes", sink.loads, keys*rounds, cached, keys*totalBytes)
	}
	if limit := uint64(cached + 8<<20); most > limit {
		t.Errorf("%d MiB were in use, want at most %d", most>>20, limit>>20)
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestTotalsWithinTheCacheAreLoadedOnce(t *testing.T) {
	const keys, rounds = 20, 3
	log := frameworktest.NewLog()
	for range rounds {
		for i := range keys {
			log.Produce("in", 0, fmt.Sprintf("k%03d=1", i))
		}
	}
	sink := &counts{Sink: memory.NewStore[row]().Open(memory.Options[row]{}), n: map[string]uint64{}}
	r, err := framework.NewRunner(bulkySum(t), frameworktest.NewSource(log), sink, framework.Config{BatchRecords: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := frameworktest.RunUntilSaved(t.Context(), r, log); err != nil {
		t.Fatal(err)
	}
	if sink.loads != keys {
		t.Errorf("%d totals were loaded, want %d", sink.loads, keys)
	}
}

// A second lane takes half of the first one's cache.
func TestCacheIsSharedByThePartitions(t *testing.T) {
	onBed(t, func(b *bed) {
		const keys = 8
		b.cfg.BatchRecords, b.cfg.CacheBytes = 1, (keys+1)*(totalBytes+1024)
		sink := &counts{Sink: b.store.Open(b.opts), n: map[string]uint64{}}
		r := b.runnerOn(bulkySum(t), sink)
		round := func() (loads int) {
			before := sink.loads
			for i := range keys {
				b.log.Produce("in", 0, fmt.Sprintf("k%03d=1", i))
			}
			b.settle()
			return sink.loads - before
		}
		b.log.Create("in", 1)
		stop := b.startRunner(r)
		first, second := round(), round()
		b.source.Assign(in1)
		b.settle()
		third := round()
		if first != keys || second != 0 || third == 0 {
			t.Errorf("loaded %d, %d, and %d totals with a second partition; want %d, none, and some", first, second, third, keys)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
