package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	fast "github.com/goccy/go-json"

	"github.com/lockstep-stream/lockstep/framework"
)

// Errors of the codecs. Test for them with errors.Is.
var (
	// ErrEmpty: there is no value to decode: a tombstone, or zero bytes.
	ErrEmpty = errors.New("empty value")
	// ErrInvalidUTF8: the value to encode holds text that JSON cannot hold.
	ErrInvalidUTF8 = errors.New("text is not valid UTF-8")
	// ErrLength: the value does not have the length its encoding always has.
	ErrLength = errors.New("wrong length")
)

// JSON returns the codec for T's JSON form, as encoding/json defines it; see
// the package documentation for how closely. Decode returns [ErrEmpty] or an
// error of encoding/json. Append writes the form of json.Marshal: no white
// space, fields in the order of the struct, map entries sorted.
func JSON[T any]() framework.Codec[T] {
	if hasQuotedField(reflect.TypeFor[T](), map[reflect.Type]bool{}) {
		return jsonCodec[T]{unmarshal: json.Unmarshal}
	}
	return jsonCodec[T]{unmarshal: fast.Unmarshal}
}

type jsonCodec[T any] struct {
	unmarshal func(data []byte, v any) error // tried first; nil says that encoding/json would agree
}

// Decode fills *v from data.
func (c jsonCodec[T]) Decode(data []byte, v *T) error {
	if len(data) == 0 {
		return fmt.Errorf("json: %w", ErrEmpty)
	}
	if c.accepts(data, v) {
		return nil
	}
	// What the first decoder refuses is rare and mostly wrong. encoding/json
	// decides, from a clean value, and words the error.
	var zero T
	*v = zero
	return json.Unmarshal(data, v)
}

// accepts decodes with the first decoder. A panic counts as a refusal: if it is
// the decoder's own, a good record must not suffer from it, and if it is that
// of an UnmarshalJSON, encoding/json raises it again.
func (c jsonCodec[T]) accepts(data []byte, v *T) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return c.unmarshal(data, v) == nil
}

// hasQuotedField reports whether a value of type t can hold a struct field with
// the "string" option. There the fast decoder takes words for numbers that
// encoding/json refuses, such as "NaN" and "+1".
func hasQuotedField(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return hasQuotedField(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			_, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if slices.Contains(strings.Split(options, ","), "string") || hasQuotedField(f.Type, seen) {
				return true
			}
		}
	}
	return false
}

// Append appends the JSON form of v to dst.
func (c jsonCodec[T]) Append(dst []byte, v T) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return dst, err
	}
	if replacedText(b) {
		return dst, fmt.Errorf("json: %T: %w: use codec.String or codec.Bytes, or encode it as base64", v, ErrInvalidUTF8)
	}
	return append(dst, b...), nil
}

// replacedText reports whether encoding/json has put a replacement character
// where the text was not UTF-8. It writes that one escaped, and a U+FFFD which
// was in the text plainly; an escaped backslash before "ufffd" is neither.
func replacedText(b []byte) bool {
	for {
		i := bytes.IndexByte(b, '\\')
		if i < 0 || i+1 >= len(b) {
			return false
		}
		if bytes.HasPrefix(b[i+1:], []byte("ufffd")) {
			return true
		}
		b = b[i+2:]
	}
}
