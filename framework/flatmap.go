package framework

// FlatMap turns each value into any number of others: f calls emit for each.
// emit must not be called after f has returned.
func FlatMap[T, U any](in Stream[T], f func(v T, emit func(U)), opts ...StageOption) Stream[U] {
	return derive(in, "flatMap", f == nil, opts, func(c *call, st *stage, out func(U) error) func(T) error {
		e := &emitter[U]{call: c, stage: st, out: out}
		emit := e.emit // made once: a method value allocates
		return func(v T) error {
			c.stage, e.err = st, nil
			f(v, emit)
			return e.err
		}
	})
}

// FlatMapErr is [FlatMap] for handlers that can fail, or that need the record's
// metadata. When f returns an error, nothing it emitted takes effect.
func FlatMapErr[T, U any](in Stream[T], f func(ctx Context, v T, emit func(U)) error, opts ...StageOption) Stream[U] {
	return derive(in, "flatMap", f == nil, opts, func(c *call, st *stage, out func(U) error) func(T) error {
		e := &emitter[U]{call: c, stage: st, out: out}
		emit := e.emit
		return func(v T) error {
			c.stage, e.err = st, nil
			err := f(Context{c}, v, emit)
			if e.err != nil {
				return e.err // it came first
			}
			return err
		}
	})
}

// emitter remembers the first failure downstream and ignores what is emitted
// after it: the record has failed already.
type emitter[U any] struct {
	call  *call
	stage *stage
	out   func(U) error
	err   error
}

func (e *emitter[U]) emit(u U) {
	if e.err != nil {
		return
	}
	if e.err = e.out(u); e.err == nil {
		e.call.stage = e.stage // back in the handler
	}
}
