package framework

import (
	"fmt"
	"unsafe"
)

// barrier is a lane's part of a ReduceByKey, without its types. The lane drives
// all barriers of a batch through the same steps:
//
//	add (by the chain) … mark/rollback … missing → fold → emit → seal → saved
//
// Steps up to seal change nothing that a repeated attempt could see.
type barrier interface {
	// mark and rollback bracket a record: rollback takes back what it added.
	mark() int
	rollback(mark int)
	// held estimates what the pairs so far will add to the batch, and memory what
	// they take until then, in bytes.
	held() int
	memory() int
	// missing returns the touched keys whose totals are not in memory, and
	// supply delivers them in that order.
	missing() []StateKey
	supply(values [][]byte) error
	// fold computes the new totals, emit sends them downstream.
	fold() error
	emit() error
	// seal appends the new totals to dst and makes the reducer ready for the
	// next batch; the totals stay pinned in memory until saved. emitted is the
	// size of what went downstream, in bytes.
	seal(dst []StateEntry, emitted int) []StateEntry
	// saved says that the oldest sealed batch is saved and applied.
	saved()
}

// reducer is the barrier of one lane. It belongs to the lane's goroutine.
type reducer[K comparable, V any] struct {
	*reduction[K, V]
	call *call
	out  func(Keyed[K, V]) error

	groups []group[K, V]    // the keys of this batch, by first occurrence
	byKey  map[K]int32      // into groups
	byCode map[string]int32 // into groups, by encoding: two K may encode alike
	pairs  []pair[V]        // in offset order
	code   []byte           // scratch

	cache   *cache[V]             // totals as of the last save
	pinned  []map[string]total[V] // totals of sealed batches not yet saved, oldest first
	perKey  int                   // bytes a key cost in the last batch
	waiting []int32               // the groups that missing returned
}

type group[K comparable, V any] struct {
	key     K
	code    string
	pairs   int // that are not rolled back; 0: nothing happened to this key
	base    V   // the total before this batch
	hasBase bool
	known   bool // base and hasBase are set
	total   V
	hasAny  bool
	encoded []byte
}

type pair[V any] struct {
	value V
	group int32
}

// firstPerKey is what a key is taken to cost before a batch has shown it, in bytes.
// It is more than most cost: the totals of the first batch are loaded all at once,
// however large they are.
const firstPerKey = 1024

func newReducer[K comparable, V any](r *reduction[K, V], b *builder, out func(Keyed[K, V]) error) *reducer[K, V] {
	return &reducer[K, V]{
		reduction: r, call: b.call, out: out, perKey: firstPerKey,
		cache: newCache[V](r.cacheKeys, b.cacheBytes),
		byKey: map[K]int32{}, byCode: map[string]int32{},
	}
}

// add is the chain's end for one pair.
func (r *reducer[K, V]) add(kv Keyed[K, V]) error {
	r.call.stage = r.stage
	g, ok := r.byKey[kv.Key]
	if !ok {
		var err error
		if g, err = r.newGroup(kv.Key); err != nil {
			return err
		}
	}
	r.groups[g].pairs++
	r.pairs = append(r.pairs, pair[V]{kv.Value, g})
	return nil
}

func (r *reducer[K, V]) newGroup(key K) (int32, error) {
	code, err := r.keys.Append(r.code[:0], key)
	r.code = code[:0]
	if err != nil {
		return 0, fmt.Errorf("encode key %s: %w", short(key), err)
	}
	g, ok := r.byCode[string(code)]
	if !ok {
		g = int32(len(r.groups))
		r.groups = append(r.groups, group[K, V]{key: key, code: string(code)})
		r.byCode[r.groups[g].code] = g
	}
	r.byKey[key] = g
	return g, nil
}

func (r *reducer[K, V]) mark() int { return len(r.pairs) }

func (r *reducer[K, V]) rollback(mark int) {
	for _, p := range r.pairs[mark:] {
		r.groups[p.group].pairs--
	}
	clear(r.pairs[mark:])
	r.pairs = r.pairs[:mark]
}

func (r *reducer[K, V]) held() int { return len(r.groups) * r.perKey }

func (r *reducer[K, V]) memory() int { return len(r.pairs) * int(unsafe.Sizeof(pair[V]{})) }

func (r *reducer[K, V]) missing() []StateKey {
	r.waiting = r.waiting[:0]
	var keys []StateKey
	for i := range r.groups {
		g := &r.groups[i]
		if g.pairs == 0 || g.known || r.remembered(g) {
			continue
		}
		r.waiting = append(r.waiting, int32(i))
		keys = append(keys, StateKey{Operator: r.name, Key: []byte(g.code)})
	}
	return keys
}

// remembered finds a total in memory. A batch that is being saved comes before
// the cache: the store does not have its totals yet.
func (r *reducer[K, V]) remembered(g *group[K, V]) bool {
	for i := len(r.pinned) - 1; i >= 0; i-- {
		if t, ok := r.pinned[i][g.code]; ok {
			g.base, g.hasBase, g.known = t.value, true, true
			return true
		}
	}
	if v, ok := r.cache.get(g.code); ok {
		g.base, g.hasBase, g.known = v, true, true
		return true
	}
	return false
}

func (r *reducer[K, V]) supply(values [][]byte) error {
	r.call.stage = r.stage
	for i, data := range values {
		g := &r.groups[r.waiting[i]]
		if data != nil {
			if err := r.values.Decode(data, &g.base); err != nil {
				return fmt.Errorf("decode the saved total of key %s: %w", short(g.key), err)
			}
			g.hasBase = true
		}
		g.known = true
	}
	return nil
}

// fold adds the pairs to the totals. It begins anew each time it is called.
func (r *reducer[K, V]) fold() error {
	for i := range r.groups {
		g := &r.groups[i]
		g.total, g.hasAny = g.base, g.hasBase
	}
	r.call.stage = r.stage
	for i := range r.pairs {
		p := &r.pairs[i]
		g := &r.groups[p.group]
		if !g.hasAny {
			g.total, g.hasAny = p.value, true
			continue
		}
		g.total = r.reduce(g.total, p.value)
	}
	return r.encode()
}

func (r *reducer[K, V]) encode() error {
	for i := range r.groups {
		g := &r.groups[i]
		if g.pairs == 0 {
			continue
		}
		var err error
		if g.encoded, err = r.values.Append(nil, g.total); err != nil {
			return fmt.Errorf("encode the total of key %s: %w", short(g.key), err)
		}
		if g.encoded == nil {
			g.encoded = []byte{} // nil would remove the key
		}
	}
	return nil
}

func (r *reducer[K, V]) emit() error {
	for i := range r.groups {
		g := &r.groups[i]
		if g.pairs == 0 {
			continue
		}
		if err := r.out(Keyed[K, V]{g.key, g.total}); err != nil {
			return fmt.Errorf("key %s: %w", short(g.key), err)
		}
	}
	return nil
}

// short is a key as errors show it.
func short(key any) string {
	const most = 100
	s := fmt.Sprint(key)
	if len(s) > most {
		s = fmt.Sprintf("%s… (%d bytes)", s[:most], len(s))
	}
	return s
}

func (r *reducer[K, V]) seal(dst []StateEntry, emitted int) []StateEntry {
	totals := make(map[string]total[V], len(r.groups))
	bytes := emitted
	for i := range r.groups {
		g := &r.groups[i]
		if g.pairs == 0 {
			continue
		}
		totals[g.code] = totalOf(g.total, g.code, g.encoded)
		e := StateEntry{StateKey{Operator: r.name, Key: []byte(g.code)}, g.encoded}
		bytes += e.size()
		dst = append(dst, e)
	}
	if len(totals) > 0 {
		r.perKey = bytes / len(totals)
	}
	r.pinned = append(r.pinned, totals)
	r.reset()
	return dst
}

func (r *reducer[K, V]) reset() {
	clear(r.groups)
	clear(r.pairs)
	clear(r.byKey)
	clear(r.byCode)
	r.groups, r.pairs = r.groups[:0], r.pairs[:0]
}

func (r *reducer[K, V]) saved() {
	for code, t := range r.pinned[0] {
		r.cache.put(code, t)
	}
	r.cache.trim()
	r.pinned = r.pinned[1:]
}
