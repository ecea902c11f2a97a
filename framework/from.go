package framework

import "errors"

// From begins a pipeline: each record's value is decoded by dec. The source,
// not the stream, names the topics. A pipeline has one From; branch from it.
func From[T any](dec Decoder[T]) Stream[T] {
	st := &stage{kind: StageDecode, name: "decode"}
	n := &node[T]{info: info{stage: st, origin: true}}
	if dec == nil {
		n.problem = errors.New("From: the decoder is nil")
	}
	n.build = func(b *builder, out func(T) error) {
		b.entry = decodeInto(b.call, st, dec, out)
	}
	return Stream[T]{n}
}

func decodeInto[T any](c *call, st *stage, dec Decoder[T], out func(T) error) func(*Record) error {
	// One value per lane: a fresh one would escape to the heap for each record.
	v := new(T)
	return func(r *Record) error {
		var zero T
		*v = zero
		c.stage = st
		if err := dec.Decode(r.Value, v); err != nil {
			return err
		}
		return out(*v)
	}
}
