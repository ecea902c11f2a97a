package codec

import "github.com/lockstep-stream/lockstep/framework"

// String returns the codec of text as its own bytes, whatever they are. It
// never fails. A tombstone decodes to "".
func String() framework.Codec[string] { return stringCodec{} }

type stringCodec struct{}

// Decode copies data into *v.
func (stringCodec) Decode(data []byte, v *string) error {
	*v = string(data)
	return nil
}

// Append appends the bytes of v to dst.
func (stringCodec) Append(dst []byte, v string) ([]byte, error) {
	return append(dst, v...), nil
}

// Bytes returns the codec of raw bytes. It never fails. Decode does not copy:
// the result is the record's own memory and must not be written to. A tombstone
// decodes to nil, a value of no bytes to an empty slice.
func Bytes() framework.Codec[[]byte] { return bytesCodec{} }

type bytesCodec struct{}

// Decode makes *v refer to data. Its capacity ends with it, so that an append
// cannot run into the record that follows in memory.
func (bytesCodec) Decode(data []byte, v *[]byte) error {
	*v = data[:len(data):len(data)]
	return nil
}

// Append appends v to dst.
func (bytesCodec) Append(dst []byte, v []byte) ([]byte, error) {
	return append(dst, v...), nil
}
