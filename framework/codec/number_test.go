package codec

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
)

func TestInt64HasTheFormOfKafkasLongSerializer(t *testing.T) {
	for v, want := range map[int64][]byte{
		0:             {0, 0, 0, 0, 0, 0, 0, 0},
		258:           {0, 0, 0, 0, 0, 0, 1, 2},
		-1:            {255, 255, 255, 255, 255, 255, 255, 255},
		math.MinInt64: {128, 0, 0, 0, 0, 0, 0, 0},
	} {
		got, err := Int64().Append([]byte{9}, v)
		if err != nil || !bytes.Equal(got, append([]byte{9}, want...)) {
			t.Errorf("Append(%d) = %v, %v", v, got, err)
		}
		var back int64
		if err := Int64().Decode(want, &back); err != nil || back != v {
			t.Errorf("Decode(%v) = %d, %v", want, back, err)
		}
	}
}

func TestInt64SortsLikeTheNumbers(t *testing.T) {
	var last []byte
	for _, v := range []int64{0, 1, 255, 256, 65_535, 1 << 40, math.MaxInt64} {
		b, _ := Int64().Append(nil, v)
		if bytes.Compare(last, b) >= 0 {
			t.Errorf("%d does not sort after the number before it", v)
		}
		last = b
	}
}

func TestFloat64IsCanonical(t *testing.T) {
	groups := [][]float64{
		{0, math.Copysign(0, -1)},
		{math.NaN(), math.Float64frombits(0x7ff8000000000042), -math.NaN()},
	}
	for _, group := range groups {
		first, _ := Float64().Append(nil, group[0])
		for _, v := range group {
			if b, _ := Float64().Append(nil, v); !slices.Equal(b, first) {
				t.Errorf("%v: bytes %v, want %v", v, b, first)
			}
		}
	}
	for _, want := range []float64{1.5, -1.5, math.MaxFloat64, 5e-324, math.Inf(-1)} {
		b, _ := Float64().Append(nil, want)
		var got float64
		if err := Float64().Decode(b, &got); err != nil || got != want {
			t.Errorf("%v came back as %v, %v", want, got, err)
		}
	}
}

func TestNumbersRefuseOtherLengths(t *testing.T) {
	refuses(t, Int64())
	refuses(t, Float64())
}

func refuses[T any](t *testing.T, c framework.Codec[T]) {
	t.Helper()
	var v T
	for n, want := range map[int]error{0: ErrEmpty, 1: ErrLength, 7: ErrLength, 9: ErrLength, 16: ErrLength} {
		if err := c.Decode(make([]byte, n), &v); !errors.Is(err, want) {
			t.Errorf("%T: %d bytes: %v, want %v", v, n, err, want)
		}
	}
}
