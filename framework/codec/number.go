package codec

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/lockstep-stream/lockstep/framework"
)

// Int64 returns the codec of integers as 8 bytes, big-endian, two's complement:
// the form of Kafka's LongSerializer, so that it reads such topics too. The
// bytes sort like the numbers as long as none is negative. Decode refuses any
// other length with [ErrLength], and an empty value with [ErrEmpty].
func Int64() framework.Codec[int64] { return int64Codec{} }

type int64Codec struct{}

// Decode reads the 8 bytes of data.
func (int64Codec) Decode(data []byte, v *int64) error {
	u, err := word("int64", data)
	*v = int64(u)
	return err
}

// Append appends the 8 bytes of v to dst.
func (int64Codec) Append(dst []byte, v int64) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, uint64(v)), nil
}

// Float64 returns the codec of floating-point numbers as 8 bytes, big-endian,
// IEEE 754: the form of Kafka's DoubleSerializer. Equal numbers get equal
// bytes: -0 is written as 0, and every NaN as the same NaN. Decode refuses any
// other length with [ErrLength], and an empty value with [ErrEmpty].
func Float64() framework.Codec[float64] { return float64Codec{} }

type float64Codec struct{}

// Decode reads the 8 bytes of data.
func (float64Codec) Decode(data []byte, v *float64) error {
	u, err := word("float64", data)
	*v = math.Float64frombits(u)
	return err
}

// Append appends the 8 bytes of v to dst.
func (float64Codec) Append(dst []byte, v float64) ([]byte, error) {
	switch {
	case v == 0:
		v = 0
	case math.IsNaN(v):
		v = math.NaN()
	}
	return binary.BigEndian.AppendUint64(dst, math.Float64bits(v)), nil
}

// word reads the 8 bytes that both numbers consist of.
func word(kind string, data []byte) (uint64, error) {
	switch len(data) {
	case 8:
		return binary.BigEndian.Uint64(data), nil
	case 0:
		return 0, fmt.Errorf("%s: %w", kind, ErrEmpty)
	default:
		return 0, fmt.Errorf("%s: %w: %d bytes, want 8", kind, ErrLength, len(data))
	}
}
