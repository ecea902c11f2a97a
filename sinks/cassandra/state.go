package cassandra

import (
	"context"
	"fmt"
	"hash/fnv"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-stream/lockstep/framework"
)

// stateBuckets is how many partitions the state of one operator, lane and window
// is spread over. One partition per key would be five times slower and could not
// be listed; one partition for all would grow without bound. It is part of the
// stored format.
const stateBuckets = 64

// stateBatch bounds the keys of one read, and stateReads the reads of one Load
// in flight.
const (
	stateBatch = 100
	stateReads = 16
)

// stateBucket names one partition of the state table.
type stateBucket struct {
	lane     laneKey
	operator string
	gen      int64
	window   int64
	bucket   int32
}

// bucketOf spreads keys by 32-bit FNV-1a modulo stateBuckets. It is part of the
// stored format: the same in every version and process.
func bucketOf(key []byte) int32 {
	h := fnv.New32a()
	h.Write(key)
	return int32(h.Sum32() % stateBuckets)
}

func (c *claim) bucket(k framework.StateKey) stateBucket {
	return stateBucket{lane: c.lane, operator: k.Operator, gen: c.gen, window: k.Window, bucket: bucketOf(k.Key)}
}

// stateRead is one read of state: some keys of one bucket.
type stateRead struct {
	bucket stateBucket
	keys   [][]byte
	wanted []int // where the values go
}

// Load implements [framework.Claim]. Every save of this claim that returned nil
// was applied at a quorum before it did, so a quorum read sees it.
func (c *claim) Load(ctx context.Context, keys []framework.StateKey) ([][]byte, error) {
	ctx, end, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	values := make([][]byte, len(keys))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(stateReads)
	for _, r := range c.stateReads(keys) {
		g.Go(func() error { return c.load(ctx, r, values) })
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("%s: load state: %w", c.lane, err)
	}
	return values, nil
}

// stateReads groups keys by bucket, in the order in which buckets first appear.
func (c *claim) stateReads(keys []framework.StateKey) []*stateRead {
	var reads []*stateRead
	open := map[stateBucket]*stateRead{}
	for i, k := range keys {
		b := c.bucket(k)
		r := open[b]
		if r == nil || len(r.keys) == stateBatch {
			r = &stateRead{bucket: b}
			open[b] = r
			reads = append(reads, r)
		}
		r.keys = append(r.keys, notNull(k.Key))
		r.wanted = append(r.wanted, i)
	}
	return reads
}

// load does one read, again after temporary errors. Reads write to distinct
// elements of values, so they need no lock.
func (c *claim) load(ctx context.Context, r *stateRead, values [][]byte) error {
	return c.retry(ctx, func() error {
		found, err := c.store.readState(ctx, r.bucket, r.keys)
		if err != nil {
			return err
		}
		for i, key := range r.keys {
			values[r.wanted[i]] = found[string(key)]
		}
		return nil
	})
}

// stateRow is a row of the state table.
type stateRow struct {
	Pipeline  string `cql:"pipeline,partition"`
	Operator  string `cql:"op,partition"`
	Topic     string `cql:"topic,partition"`
	Partition int32  `cql:"partition,partition"`
	Gen       int64  `cql:"gen,partition"`
	Window    int64  `cql:"win,partition"`
	Bucket    int32  `cql:"bucket,partition"`
	Key       []byte `cql:"key,clustering"`
	Value     []byte `cql:"v"`
}

var stateRows = NewTable[stateRow](stateTable)

// stateWrite makes the write of a state entry: state is saved and applied like
// the outputs it belongs to.
func (c *claim) stateWrite(e *framework.StateEntry) Write {
	row := stateRow{
		Pipeline: c.lane.pipeline, Operator: e.Operator, Topic: c.lane.topic, Partition: c.lane.partition,
		Gen: c.gen, Window: e.Window, Bucket: bucketOf(e.Key), Key: e.Key, Value: e.Value,
	}
	if e.Value == nil {
		return stateRows.Delete(row)
	}
	return stateRows.Insert(row)
}
