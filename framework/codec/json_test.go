package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"
)

type point struct {
	X    int             `json:"x"`
	Name string          `json:"name"`
	Raw  json.RawMessage `json:"raw"`
	Data []byte          `json:"data"`
	Any  any             `json:"any"`
	Tags map[string]int  `json:"tags"`
}

func TestJSONRefusesAnEmptyValue(t *testing.T) {
	for _, data := range [][]byte{nil, {}} {
		var v point
		if err := JSON[point]().Decode(data, &v); !errors.Is(err, ErrEmpty) {
			t.Errorf("Decode(%#v) = %v, want ErrEmpty", data, err)
		}
	}
}

func TestJSONErrorsAreThoseOfEncodingJSON(t *testing.T) {
	var v point
	err := JSON[point]().Decode([]byte(`{"x":"1"}`), &v)
	var typeErr *json.UnmarshalTypeError
	if !errors.As(err, &typeErr) || typeErr.Field != "x" {
		t.Errorf("a string into an int: %v, want *json.UnmarshalTypeError of field x", err)
	}
	err = JSON[point]().Decode([]byte(`{"x":1,}`), &v)
	var syntaxErr *json.SyntaxError
	if !errors.As(err, &syntaxErr) || syntaxErr.Offset != 8 {
		t.Errorf("a comma too many: %v, want *json.SyntaxError at 8", err)
	}
}

// TestJSONDecidesWithEncodingJSON breaks the first decoder in each way it could
// be broken.
func TestJSONDecidesWithEncodingJSON(t *testing.T) {
	broken := map[string]func([]byte, any) error{
		"refuses what is right": func([]byte, any) error { return errors.New("no") },
		"panics":                func([]byte, any) error { panic("index out of range") },
		"leaves half a value": func(_ []byte, v any) error {
			*v.(*point) = point{X: 7, Name: "left over", Tags: map[string]int{"left": 1}}
			return errors.New("no")
		},
	}
	for name, unmarshal := range broken {
		c := jsonCodec[point]{unmarshal}
		var got point
		if err := c.Decode([]byte(`{"x":1,"tags":{"a":2}}`), &got); err != nil {
			t.Errorf("first decoder %s: good record: %v", name, err)
		}
		if want := (point{X: 1, Tags: map[string]int{"a": 2}}); !reflect.DeepEqual(got, want) {
			t.Errorf("first decoder %s: got %+v, want %+v", name, got, want)
		}
		if err := c.Decode([]byte(`{"x":1`), &got); err == nil {
			t.Errorf("first decoder %s: half a record was accepted", name)
		}
	}
}

type bomb struct{}

func (*bomb) UnmarshalJSON([]byte) error { panic("boom") }

func TestJSONLetsThePanicOfAnUnmarshalerThrough(t *testing.T) {
	defer func() {
		if got := recover(); got != "boom" {
			t.Errorf("recovered %v, want boom", got)
		}
	}()
	var v bomb
	err := JSON[bomb]().Decode([]byte(`1`), &v)
	t.Errorf("Decode returned %v, want a panic", err)
}

// TestJSONValuesOwnTheirMemory decodes, spoils the input, decodes much else on
// the same goroutine, and looks whether the first value is still whole.
func TestJSONValuesOwnTheirMemory(t *testing.T) {
	c := JSON[point]()
	input := []byte(`{"x":1,"name":"first","raw":{"r":[1,2,3]},"data":"AQID","any":{"k":["v"]},"tags":{"t":1}}`)
	var got, want point
	if err := c.Decode(input, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(string(input)), &want); err != nil {
		t.Fatal(err)
	}
	for i := range input {
		input[i] = 'X'
	}
	for i := range 1000 {
		var other point
		data := fmt.Sprintf(`{"name":"%[1]s","raw":"%[1]s","data":"BBBB","any":{"%[1]s":["%[1]s"]}}`, strings.Repeat("Z", i%90))
		if err := c.Decode([]byte(data), &other); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the value changed after it was decoded: %+v, want %+v", got, want)
	}
}

// TestJSONIsSafeForConcurrentUse starts with a type no goroutine has decoded
// before, so that its decoder is made by several at once.
func TestJSONIsSafeForConcurrentUse(t *testing.T) {
	type fresh struct {
		N    int     `json:"n"`
		S    string  `json:"s"`
		Next []fresh `json:"next"`
	}
	c := JSON[fresh]()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				want := fresh{i, strings.Repeat("s", g), []fresh{{N: g}}}
				data, err := c.Append(nil, want)
				if err != nil {
					t.Error(err)
				}
				var got fresh
				if err := c.Decode(data, &got); err != nil || got.S != want.S || got.N != i || got.Next[0].N != g {
					t.Errorf("got %+v, %v, want %+v", got, err, want)
				}
				if err := c.Decode(data[:len(data)-1], &got); err == nil {
					t.Error("half a record was accepted")
				}
			}
		})
	}
	wg.Wait()
}

func TestJSONAppendIsCanonical(t *testing.T) {
	type key struct {
		Source string         `json:"source"`
		Minute int64          `json:"minute"`
		Tags   map[string]int `json:"tags,omitempty"`
	}
	c := JSON[key]()
	a := key{"s<1>", 29, map[string]int{}}
	b := key{"s<1>", 29, map[string]int{}}
	for i := range 20 {
		a.Tags[fmt.Sprint(i)] = i
		b.Tags[fmt.Sprint(19-i)] = 19 - i
	}
	first, err := c.Append([]byte("prefix"), a)
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.Append(nil, b)
	if err != nil {
		t.Fatal(err)
	}
	if string(first) != "prefix"+string(second) {
		t.Errorf("equal keys, different bytes:\n%s\n%s", first, second)
	}
	want, _ := json.Marshal(a)
	if string(second) != string(want) {
		t.Errorf("got %s, want the form of json.Marshal, %s", second, want)
	}
}

func TestJSONAppendRefusesWhatTwoKeysWouldShare(t *testing.T) {
	c := JSON[map[string]string]()
	for _, text := range []string{"\xff", "a\xc3", "\xed\xa0\x80", `\` + "\xff"} {
		for _, v := range []map[string]string{{"k": text}, {text: "v"}} {
			if b, err := c.Append(nil, v); !errors.Is(err, ErrInvalidUTF8) || len(b) != 0 {
				t.Errorf("Append(%q) = %q, %v, want ErrInvalidUTF8", v, b, err)
			}
		}
	}
	for _, text := range []string{"\ufffd", `\ufffd`, `\\ufffd`, `\`, "", "Zoë\n"} {
		b, err := c.Append(nil, map[string]string{"k": text})
		if err != nil {
			t.Errorf("Append(%q): %v", text, err)
		}
		var back map[string]string
		if err := c.Decode(b, &back); err != nil || back["k"] != text {
			t.Errorf("%q came back as %q, %v", text, back["k"], err)
		}
	}
}

func TestJSONAppendReportsWhatCannotBeEncoded(t *testing.T) {
	dst := []byte("kept")
	got, err := JSON[float64]().Append(dst, math.NaN())
	if err == nil || string(got) != "kept" {
		t.Errorf("Append(NaN) = %q, %v, want dst and an error", got, err)
	}
}
