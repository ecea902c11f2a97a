package framework

// Filter lets the values pass for which keep returns true.
func Filter[T any](in Stream[T], keep func(T) bool, opts ...StageOption) Stream[T] {
	return derive(in, "filter", keep == nil, opts, func(c *call, st *stage, out func(T) error) func(T) error {
		return func(v T) error {
			c.stage = st
			if !keep(v) {
				return nil
			}
			return out(v)
		}
	})
}

// FilterErr is [Filter] for handlers that can fail, or that need the record's
// metadata.
func FilterErr[T any](in Stream[T], keep func(Context, T) (bool, error), opts ...StageOption) Stream[T] {
	return derive(in, "filter", keep == nil, opts, func(c *call, st *stage, out func(T) error) func(T) error {
		return func(v T) error {
			c.stage = st
			ok, err := keep(Context{c}, v)
			if err != nil || !ok {
				return err
			}
			return out(v)
		}
	})
}
