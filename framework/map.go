package framework

// Map turns each value into another. f must not keep state between calls: a
// record may be processed again after a failure.
func Map[T, U any](in Stream[T], f func(T) U, opts ...StageOption) Stream[U] {
	return derive(in, "map", f == nil, opts, func(c *call, st *stage, out func(U) error) func(T) error {
		return func(v T) error {
			c.stage = st
			return out(f(v))
		}
	})
}

// MapErr is [Map] for handlers that can fail, or that need the record's
// metadata. An error is a failure of that record, handled by the policy.
func MapErr[T, U any](in Stream[T], f func(Context, T) (U, error), opts ...StageOption) Stream[U] {
	return derive(in, "map", f == nil, opts, func(c *call, st *stage, out func(U) error) func(T) error {
		return func(v T) error {
			c.stage = st
			u, err := f(Context{c}, v)
			if err != nil {
				return err
			}
			return out(u)
		}
	})
}
