package codec_test

import (
	"bufio"
	"encoding/json"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/lockstep-stream/lockstep/framework/codec"
)

// checkAgrees decodes data into every shape with codec.JSON and encoding/json
// and requires one verdict, one value and one kind of error.
func checkAgrees(t *testing.T, data []byte) {
	t.Helper()
	agreesOn[event](t, data)
	agreesOn[small](t, data)
	agreesOn[order](t, data)
	agreesOn[everything](t, data)
	agreesOn[quoted](t, data)
	agreesOn[quotedInside](t, data)
	agreesOn[any](t, data)
	agreesOn[*small](t, data)
	agreesOn[[]small](t, data)
	agreesOn[map[string]any](t, data)
	agreesOn[int64](t, data)
	agreesOn[uint8](t, data)
	agreesOn[float64](t, data)
	agreesOn[string](t, data)
	agreesOn[bool](t, data)
	agreesOn[[]byte](t, data)
	agreesOn[json.RawMessage](t, data)
}

// agreesOn reports whether both accepted data into a T, too.
func agreesOn[T any](t *testing.T, data []byte) (accepted bool) {
	t.Helper()
	var got, want T
	given := string(data)
	gotErr := codec.JSON[T]().Decode(data, &got)
	wantErr := json.Unmarshal([]byte(given), &want)
	switch {
	case string(data) != given:
		t.Errorf("%q into %T: Decode changed its input to %q", given, got, data)
	case (gotErr == nil) != (wantErr == nil):
		t.Errorf("%q into %T: error %v, encoding/json says %v", given, got, gotErr, wantErr)
	case wantErr != nil && given != "" && gotErr.Error() != wantErr.Error():
		t.Errorf("%q into %T: error %q, encoding/json says %q", given, got, gotErr, wantErr)
	case wantErr == nil && !reflect.DeepEqual(got, want):
		t.Errorf("%q into %T: value %+v, encoding/json says %+v", given, got, got, want)
	}
	return gotErr == nil
}

// corpus returns the documents of testdata/json.corpus: one a line, quoted as
// in Go.
func corpus(t testing.TB) []string {
	t.Helper()
	f, err := os.Open("testdata/json.corpus")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var docs []string
	for s := bufio.NewScanner(f); s.Scan(); {
		line := s.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		doc, err := strconv.Unquote(line)
		if err != nil {
			t.Fatalf("testdata/json.corpus: %s: %v", line, err)
		}
		docs = append(docs, doc)
	}
	return docs
}

func TestJSONAgreesWithEncodingJSONOnTheCorpus(t *testing.T) {
	docs := corpus(t)
	if len(docs) < 100 {
		t.Fatalf("only %d documents in the corpus", len(docs))
	}
	for _, doc := range docs {
		checkAgrees(t, []byte(doc))
		checkAgrees(t, []byte(" \n\t"+doc+"\r "))
		checkAgrees(t, []byte(doc+"x"))
		for cut := range len(doc) {
			agreesOn[everything](t, []byte(doc[:cut]))
		}
	}
}

func TestJSONAgreesWithEncodingJSONOnDeepNesting(t *testing.T) {
	for _, depth := range []int{100, 9_999, 10_000, 10_001} {
		for _, pair := range [][2]string{{"[", "]"}, {`{"any":`, "}"}, {`{"sub":`, "}"}, {`{"unknown":[`, "]}"}} {
			middle := "1"
			if pair[0] == `{"sub":` {
				middle = "null"
			}
			doc := strings.Repeat(pair[0], depth) + middle + strings.Repeat(pair[1], depth)
			agreesDeep[any](t, doc, depth)
			agreesDeep[everything](t, doc, depth)
		}
	}
}

// agreesDeep compares the verdicts only: printing such a value helps nobody.
func agreesDeep[T any](t *testing.T, doc string, depth int) {
	t.Helper()
	var got, want T
	gotErr := codec.JSON[T]().Decode([]byte(doc), &got)
	wantErr := json.Unmarshal([]byte(doc), &want)
	if (gotErr == nil) != (wantErr == nil) {
		t.Errorf("%s… %d deep into %T: error %v, encoding/json says %v", doc[:7], depth, got, gotErr, wantErr)
	}
	if gotErr == nil && !reflect.DeepEqual(got, want) {
		t.Errorf("%s… %d deep into %T: the values differ", doc[:7], depth, got)
	}
}

// TestJSONAgreesWithEncodingJSONOnGeneratedDocuments builds objects out of the
// shapes' own names and awkward values, and damages a part of them. The seed is
// fixed; the fuzz test goes on where this one ends.
func TestJSONAgreesWithEncodingJSONOnGeneratedDocuments(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(1, 1)), corpus(t)}
	const documents = 8_000
	accepted := 0
	for range documents {
		doc := g.damage([]byte(g.document()))
		if agreesOn[everything](t, doc) {
			accepted++
		}
		agreesOn[small](t, doc)
		agreesOn[quoted](t, doc)
		agreesOn[any](t, doc)
	}
	// A generator of rubbish would show agreement on refusals alone.
	if accepted < documents/20 {
		t.Errorf("only %d of %d documents were accepted", accepted, documents)
	}
}

// FuzzJSONAgreesWithEncodingJSON looks for an input on which codec.JSON and
// encoding/json differ.
func FuzzJSONAgreesWithEncodingJSON(f *testing.F) {
	docs := corpus(f)
	g := generator{rand.New(rand.NewPCG(2, 2)), docs}
	for _, doc := range docs {
		f.Add([]byte(doc))
	}
	for range 200 {
		f.Add([]byte(g.document()))
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkAgrees(t, data) })
}

type generator struct {
	*rand.Rand
	values []string
}

// names are the shapes' own, in other cases, escaped, folded and damaged.
var names = []string{
	"e", "E", "ID", "id", "Id", "iD", "h", "H", "X", "x", "Y", "y", "i", "I", "i8", "u8", "u", "f", "f32", "b", "s", "S", "by", "p", "ps",
	"l", "a", "m", "mi", "mk", "any", "r", "n", "t", "qi", "qu", "qs", "qb", "qf", "qn", "qd", "qp", "ql", "c", "pc", "sub", "SUB", "\u017fub", "ls", "lm", "la",
	"Kk", "kk", "KK", "K\u212a", "sſk", "ssk", "SSK", "-", "Ignored", "d", "mm", "mmm", "ifc", "name", "NAME", "Name", "nam", "names", "ok",
	"", `\u0069d`, `i\u0064`, `n\u0061me`, `\n`, "i\xff", "id\x00",
}

func (g generator) document() string {
	if g.IntN(8) == 0 {
		return g.value(3)
	}
	return g.object(3)
}

func (g generator) object(depth int) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range g.IntN(5) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + names[g.IntN(len(names))] + `":` + g.value(depth))
	}
	b.WriteByte('}')
	return b.String()
}

func (g generator) value(depth int) string {
	switch n := g.IntN(24); {
	case depth > 0 && n < 4:
		return g.object(depth - 1)
	case depth > 0 && n < 7:
		return "[" + g.value(depth-1) + ", " + g.value(depth-1) + "]"
	case n == 7:
		return strconv.FormatFloat(g.NormFloat64()*1e10, 'g', -1, 64)
	default:
		return g.values[g.IntN(len(g.values))]
	}
}

// damage changes one document in three: bytes removed, overwritten, inserted or
// cut off.
func (g generator) damage(doc []byte) []byte {
	for g.IntN(3) == 0 && len(doc) > 0 {
		i := g.IntN(len(doc))
		switch g.IntN(4) {
		case 0:
			doc = append(doc[:i:i], doc[i+1:]...)
		case 1:
			doc[i] = byte(g.IntN(256))
		case 2:
			doc = append(doc[:i:i], g.values[g.IntN(len(g.values))]+string(doc[i:])...)
		case 3:
			doc = doc[:i]
		}
	}
	return doc
}
