package framework

// Decoder turns the value of a record into a T.
//
// Decode fills *v, which is the zero T when called. It may be called from many
// goroutines at once. It must not retain data, but the T may refer to it: the
// bytes of a record are never reused. An error, or a panic, is a decode failure
// of that one record and is handled by the pipeline's policy for it.
type Decoder[T any] interface {
	Decode(data []byte, v *T) error
}

// Codec is a Decoder that also encodes: it stores the keys and values of a
// reduction. Append appends the encoding of v to dst and returns the extended
// slice, like append. The encoding of a key must be canonical: equal keys give
// equal bytes, in every process and every version of the program, since the
// bytes are what the state is found by.
type Codec[T any] interface {
	Decoder[T]
	Append(dst []byte, v T) ([]byte, error)
}
