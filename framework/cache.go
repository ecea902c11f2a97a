package framework

import "github.com/hashicorp/golang-lru/v2/simplelru"

// cache keeps the totals that were saved last in memory, so that they need not be
// loaded again. It is bounded by keys, and by the bytes of keys and totals as they
// are encoded; what was used longest ago goes first. It belongs to the lane's
// goroutine.
type cache[V any] struct {
	lru   *simplelru.LRU[string, total[V]]
	limit func() int // bytes, now
	bytes int
}

// total is a value of a reduction, with the bytes that it is counted with.
type total[V any] struct {
	value V
	bytes int
}

// cacheOverhead is what a cached total costs beside key and value.
const cacheOverhead = 128

func totalOf[V any](v V, code string, encoded []byte) total[V] {
	return total[V]{v, cacheOverhead + len(code) + len(encoded)}
}

func newCache[V any](keys int, limit func() int) *cache[V] {
	c := &cache[V]{limit: limit}
	var err error
	if c.lru, err = simplelru.NewLRU(keys, c.evicted); err != nil {
		panic(err) // validate has refused sizes below 1
	}
	return c
}

func (c *cache[V]) evicted(_ string, t total[V]) { c.bytes -= t.bytes }

func (c *cache[V]) get(code string) (v V, ok bool) {
	t, ok := c.lru.Get(code)
	return t.value, ok
}

func (c *cache[V]) put(code string, t total[V]) {
	if old, ok := c.lru.Peek(code); ok {
		c.bytes -= old.bytes // replaced, not evicted
	}
	c.bytes += t.bytes
	c.lru.Add(code, t)
}

// trim keeps the limit, which may have become smaller meanwhile.
func (c *cache[V]) trim() {
	for limit := c.limit(); c.bytes > limit; {
		c.lru.RemoveOldest()
	}
}
