package framework

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Keyed is a value with the key it belongs to.
type Keyed[K comparable, V any] struct {
	Key   K
	Value V
}

// ReduceOption adjusts a [ReduceByKey] whose keys are K and values V.
type ReduceOption[K comparable, V any] func(*reduction[K, V])

// KeyCodec stores keys with c instead of as JSON. The encoding must be
// canonical: it is what the state is found by.
func KeyCodec[K comparable, V any](c Codec[K]) ReduceOption[K, V] {
	return func(r *reduction[K, V]) { r.keys = c }
}

// StateCodec stores values with c instead of as JSON.
func StateCodec[K comparable, V any](c Codec[V]) ReduceOption[K, V] {
	return func(r *reduction[K, V]) { r.values = c }
}

// CacheKeys sets how many keys a lane keeps in memory at most so that they need not
// be loaded again; [Config].CacheBytes bounds their bytes. Defaults to 65,536.
func CacheKeys[K comparable, V any](n int) ReduceOption[K, V] {
	return func(r *reduction[K, V]) { r.cacheKeys = n }
}

const defaultCacheKeys = 1 << 16

// reduction is what a ReduceByKey was given.
type reduction[K comparable, V any] struct {
	name      string
	reduce    func(acc, v V) V
	keys      Codec[K]
	values    Codec[V]
	cacheKeys int
	stage     *stage
}

// ReduceByKey keeps a running total for each key: reduce(total, value) for each
// value in offset order, beginning with the first value itself. The totals live
// in the sink and are saved in the same commit as the position.
//
// It is a batch barrier. When a batch closes, each key that occurred in it goes
// downstream once, with its new total, in the order of first occurrence. A
// failure from there on has no single record to blame and stops the lane.
//
// A key may occur on several Kafka partitions. Each partition keeps a total of
// its own, so whoever stores totals needs topic and partition in the key
// ([MapErr] and [Context] tell them), and whoever reads them reduces over the
// partitions. reduce must therefore be associative and commutative. It must
// not modify its arguments.
//
// The name finds the saved state: it survives edits of the pipeline, and must
// be unique in it. Keys and totals are stored as JSON unless options say
// otherwise. A key that JSON would not give back as it was (unexported fields,
// pointers, text that is not UTF-8, a time with a zone other than UTC) is a
// failure of its record: two such keys could be stored as one.
func ReduceByKey[K comparable, V any](name string, in Stream[Keyed[K, V]], reduce func(acc, v V) V, opts ...ReduceOption[K, V]) Stream[Keyed[K, V]] {
	r := &reduction[K, V]{
		name: name, reduce: reduce, keys: jsonKeys[K]{}, values: jsonCodec[V]{}, cacheKeys: defaultCacheKeys,
		stage: &stage{kind: StageHandler, name: "reduce " + name},
	}
	for _, o := range opts {
		o(r)
	}
	n := &node[Keyed[K, V]]{info: info{stage: r.stage, inputs: inputs(in), reduce: name}}
	n.problem = r.validate()
	n.build = func(b *builder, out func(Keyed[K, V]) error) {
		lane := newReducer(r, b, out)
		b.barriers = append(b.barriers, lane)
		connect(b, in, lane.add)
	}
	return Stream[Keyed[K, V]]{n}
}

func (r *reduction[K, V]) validate() error {
	switch {
	case !pipelineName.MatchString(r.name):
		return fmt.Errorf("ReduceByKey %q: the name must be 1 to 100 letters, digits, '.', '_' or '-', and begin with a letter or digit; it finds the saved state", r.name)
	case r.reduce == nil:
		return fmt.Errorf("ReduceByKey %q: the function is nil", r.name)
	case r.keys == nil || r.values == nil:
		return fmt.Errorf("ReduceByKey %q: a codec is nil", r.name)
	case r.cacheKeys < 1:
		return fmt.Errorf("ReduceByKey %q: CacheKeys must be at least 1", r.name)
	}
	return nil
}

// jsonKeys is the default for keys: JSON that is known to be reversible.
type jsonKeys[K comparable] struct{ jsonCodec[K] }

func (c jsonKeys[K]) Append(dst []byte, key K) ([]byte, error) {
	out, err := c.jsonCodec.Append(dst, key)
	if err != nil {
		return out, err
	}
	var back K
	if err := c.Decode(out[len(dst):], &back); err != nil {
		return out, err
	}
	if back != key {
		return out, fmt.Errorf("JSON does not give the key back as it was, but as %v; use another type, or KeyCodec", back)
	}
	return out, nil
}

// jsonCodec is the default for totals: the standard library's JSON, which is
// the same in every version of a program.
type jsonCodec[T any] struct{}

func (jsonCodec[T]) Append(dst []byte, v T) ([]byte, error) {
	b, err := json.Marshal(v)
	return append(dst, b...), err
}

func (jsonCodec[T]) Decode(data []byte, v *T) error {
	if len(data) == 0 {
		return errors.New("empty JSON")
	}
	return json.Unmarshal(data, v)
}
