package codec_test

import (
	"encoding/json"
	"testing"

	"github.com/bytedance/sonic"
	goccy "github.com/goccy/go-json"

	"github.com/lockstep-stream/lockstep/framework/codec"
)

// The candidates for the decoder of codec.JSON. sonic counts as its ConfigStd:
// its default checks no UTF-8 and lets strings refer to the input.
var candidates = []struct {
	name      string
	unmarshal func([]byte, any) error
}{
	{"encoding-json", json.Unmarshal},
	{"goccy", func(data []byte, v any) error { return goccy.Unmarshal(data, v) }},
	{"sonic-std", sonic.ConfigStd.Unmarshal},
	{"sonic-default", sonic.ConfigDefault.Unmarshal},
}

func BenchmarkDecodeEvent(b *testing.B) {
	decodeWithAll[event](b, `{"id":1234567,"ts":1767323045678,"source":"sensor-042.eu-west.example","client":"client-000317.example.org","health":73}`)
}

func BenchmarkDecodeSmall(b *testing.B) {
	decodeWithAll[small](b, `{"id":42,"name":"sensor","ok":true}`)
}

func BenchmarkDecodeNested(b *testing.B) {
	decodeWithAll[order](b, `{"id":"o-1","at":"2026-01-02T03:04:05.678Z","buyer":{"id":1,"name":"Ann","ok":true},`+
		`"lines":[{"sku":"a-1","count":2,"price":9.5},{"sku":"b-2","count":1,"price":120.25}],"tags":{"channel":"web","lang":"de"}}`)
}

func BenchmarkDecodeEscapes(b *testing.B) {
	decodeWithAll[small](b, `{"id":42,"name":"line one\nline \"two\"\tZo\u00eb \ud83d\ude00 and C:\\temp","ok":true}`)
}

func BenchmarkDecodeUnicode(b *testing.B) {
	decodeWithAll[small](b, `{"id":42,"name":"Zoë prüft 漢字 und 😀 im Feld","ok":true}`)
}

func decodeWithAll[T any](b *testing.B, doc string) {
	c := codec.JSON[T]()
	b.Run("codec", func(b *testing.B) {
		decodeLoop(b, doc, c.Decode)
	})
	for _, candidate := range candidates {
		b.Run(candidate.name, func(b *testing.B) {
			decodeLoop(b, doc, func(data []byte, v *T) error { return candidate.unmarshal(data, v) })
		})
	}
}

func decodeLoop[T any](b *testing.B, doc string, decode func([]byte, *T) error) {
	data, v := []byte(doc), new(T)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		var zero T
		*v = zero
		if err := decode(data, v); err != nil {
			b.Fatal(err)
		}
	}
}
