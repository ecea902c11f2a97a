package cassandra

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
)

type meta struct {
	Source   string
	LoadedAt time.Time
}

type event struct {
	meta
	Seq      int64  `cql:"seq,clustering"`
	Topic    string `cql:"topic,partition"`
	EventID  [16]byte
	Bucket   int32 `cql:"bucket,partition"`
	Payload  []byte
	Score    *float64
	Comment  Optional[string] `cql:"comment"`
	Ignored  string           `cql:"-"`
	internal int
}

func TestColumnsComeFromTagsAndNames(t *testing.T) {
	target, err := NewTable[event]("events").declared()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range target.columns {
		got = append(got, c.name+" "+c.typ.String()+" "+c.role.String())
	}
	want := []string{
		"topic text partition_key", "bucket int partition_key", "seq bigint clustering",
		"source text regular", "loaded_at timestamp regular", "event_id uuid regular", "payload blob regular", "score double regular", "comment text regular",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if target.partition != 2 || target.clustering != 1 {
		t.Errorf("keys: %d and %d", target.partition, target.clustering)
	}
}

func TestTablesThatCannotBeWrittenAreRefusedWithTheReason(t *testing.T) {
	type key struct {
		K string `cql:"k,partition"`
	}
	for want, table := range map[string]AnyTable{
		"rows are structs":   NewTable[string]("t"),
		"no field is tagged": NewTable[struct{ A string }]("t"),
		"name \"\"":          NewTable[key](""),
		"name \"ks.t\"":      NewTable[key]("ks.t"),
		"1 to 48":            NewTable[key](strings.Repeat("x", 49)),
		"cannot be negative": NewTable[key]("t", WithTTL(-time.Second)),
		"has two fields": NewTable[struct {
			A, B string `cql:"k,partition"`
		}]("t"),
		"tag option \"primary\"": NewTable[struct {
			A string `cql:"k,primary"`
		}]("t"),
		"tag option \"clustering\"": NewTable[struct {
			A string `cql:"k,partition,clustering"`
		}]("t"),
		"not exported": NewTable[struct {
			a string `cql:"k,partition"`
		}]("t"),
		"only structs can be embedded": NewTable[struct{ *event }]("t"),
		"counter columns cannot": NewTable[struct {
			K string `cql:"k,partition"`
			N int64  `cql:"n,type=counter"`
		}]("t"),
		"a list that is not frozen": NewTable[struct {
			K string   `cql:"k,partition"`
			L []string `cql:"l,type=list<text>"`
		}]("t"),
		"a key cannot be set<text>": NewTable[struct {
			K []string `cql:"k,partition,type=set<text>"`
		}]("t"),
		"a tuple is not supported": NewTable[struct {
			K string            `cql:"k,partition"`
			P struct{ X int32 } `cql:"p,type=tuple<int>"`
		}]("t"),
		"no CQL type is known": NewTable[struct {
			K string `cql:"k,partition"`
			F func()
		}]("t"),
		"a Go string cannot be written": NewTable[struct {
			K string `cql:"k,partition,type=int"`
		}]("t"),
		"tag option \"type=\"": NewTable[struct {
			K string `cql:"k,partition,type="`
		}]("t"),
		"vector<…> is not supported": NewTable[struct {
			K []float32 `cql:"k,partition,type=vector<float, 3>"`
		}]("t"),
		"cannot be part of a key": NewTable[struct {
			K string `cql:"k,partition"`
			A struct {
				X string `cql:"x,clustering"`
			} `cql:"a,type=frozen<a>"`
		}]("t"),
	} {
		_, err := table.declared()
		if !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want a configuration error with %q", err, want)
		}
	}
	bad := NewTable[struct{ A string }]("t")
	if w := bad.Insert(struct{ A string }{}); w.check(defaultMaxWrite) == nil {
		t.Error("a write of a table that is wrong passes")
	}
}

// cells returns the row of w as text: "-" for unset, "null" for clear.
func cells(t *testing.T, w Write) []string {
	t.Helper()
	if w.err != nil {
		t.Fatal(w.err)
	}
	var out []string
	for row := w.row; len(row) > 0; {
		head, v, rest, ok := nextCell(row)
		if !ok {
			t.Fatalf("bad row %x", w.row)
		}
		switch head {
		case headUnset:
			out = append(out, "-")
		case headClear:
			out = append(out, "null")
		default:
			out = append(out, string(v))
		}
		row = rest
	}
	return out
}

type note struct {
	K string `cql:"k,partition"`
	C string `cql:"c,clustering"`
	P *string
	O Optional[string]
	S string
}

var notes = NewTable[note]("notes")

func TestUnsetClearAndZeroAreThreeThings(t *testing.T) {
	empty := ""
	for _, tc := range []struct {
		v    note
		want []string
	}{
		{note{K: "k", C: "c"}, []string{"k", "c", "-", "-", ""}},
		{note{K: "k", C: "c", P: &empty, O: Set("")}, []string{"k", "c", "", "", ""}},
		{note{K: "k", O: Clear[string](), S: strings.Repeat("s", 300)}, []string{"k", "", "-", "null", strings.Repeat("s", 300)}},
	} {
		for _, w := range []Write{notes.Insert(tc.v), notes.Upsert(tc.v)} {
			if got := cells(t, w); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		}
		if got := cells(t, notes.Delete(tc.v)); !slices.Equal(got, tc.want[:2]) {
			t.Errorf("delete: got %q", got)
		}
	}
}

func TestEmbeddedFieldsAreWritten(t *testing.T) {
	at := time.UnixMilli(0x0102030405060708)
	w := NewTable[event]("events").Insert(event{meta: meta{Source: "src", LoadedAt: at}, Topic: "t", Ignored: "no", internal: 1})
	got := cells(t, w)
	if got[3] != "src" || got[4] != "\x01\x02\x03\x04\x05\x06\x07\x08" {
		t.Errorf("got %q", got)
	}
}

func TestOptionalSaysWhatItIs(t *testing.T) {
	var unset Optional[int]
	if v, ok := Set(3).Get(); v != 3 || !ok || !unset.IsUnset() || unset.IsClear() || !Clear[int]().IsClear() || Set(0).IsUnset() {
		t.Error("the three states are mixed up")
	}
}

func TestWritesThatCouldNeverBeSavedAreRefusedByCheck(t *testing.T) {
	type loose struct {
		K *string          `cql:"k,partition"`
		C Optional[string] `cql:"c,clustering"`
		V []byte           `cql:"v"`
	}
	type partial struct {
		K string `cql:"k,partition"`
		V *string
	}
	table, k := NewTable[loose]("loose"), "k"
	long := strings.Repeat("x", maxKeyBytes)
	type composite struct {
		A string `cql:"a,partition"`
		B string `cql:"b,partition"`
		C string `cql:"c,clustering"`
		D string `cql:"d,clustering"`
	}
	pair := NewTable[composite]("pair")
	for name, tc := range map[string]struct {
		w    Write
		want string
	}{
		"zero write":          {Write{}, "empty Write"},
		"nil key":             {table.Insert(loose{C: Set("c")}), "column k: a key column must have a value"},
		"unset clustering":    {table.Delete(loose{K: &k}), "column c: a key column must have a value"},
		"cleared clustering":  {table.Insert(loose{K: &k, C: Clear[string]()}), "column c: a key column must have a value"},
		"empty key":           {notes.Insert(note{}), "column k: the partition key must not be empty"},
		"long key":            {notes.Insert(note{K: long + "x"}), "65536"},
		"long composite key":  {pair.Insert(composite{A: long[:40000], B: long[:maxKeyBytes-40000-5]}), "65536"},
		"long clustering key": {pair.Delete(composite{A: "a", C: long, D: "x"}), "65536"},
		"bad text":            {notes.Insert(note{K: "k", S: "\xff"}), "column s: not valid UTF-8"},
		"bad optional":        {notes.Insert(note{K: "k", O: Set("\xff")}), "column o: not valid UTF-8"},
		"too large":           {table.Insert(loose{K: &k, C: Set("c"), V: make([]byte, defaultMaxWrite)}), "exceeds the limit of 1048576"},
		"upsert of nothing":   {NewTable[partial]("p").Upsert(partial{K: "k"}), "writes nothing"},
		"expiry too far":      {notes.Insert(note{K: "k"}).ExpireAt(time.Unix(maxExpiry+1, 0)), "2038-01-18"},
		"expiry before 1970":  {notes.Insert(note{K: "k"}).ExpireAt(time.Unix(-1, 0)), "expiry"},
		"expiry of a delete":  {notes.Delete(note{K: "k"}).ExpireAt(time.Unix(1, 0)), "cannot expire"},
	} {
		err := tc.w.check(defaultMaxWrite)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
	good := notes.Insert(note{K: "k"})
	if err := good.check(defaultMaxWrite); err != nil {
		t.Error(err)
	}
}

func TestExpiryIsFixedWhenTheWriteIsMade(t *testing.T) {
	at := time.Unix(1_800_000_000, 1)
	if w := notes.Insert(note{K: "k"}).ExpireAt(at); w.expires != 1_800_000_001 || w.err != nil {
		t.Errorf("got %d, %v, want the second after", w.expires, w.err)
	}
	limited := NewTable[note]("notes", WithTTL(time.Hour))
	before := time.Now().Add(time.Hour).Unix()
	w := limited.Insert(note{K: "k"})
	if after := time.Now().Add(time.Hour).Unix() + 1; w.expires < before || w.expires > after {
		t.Errorf("got %d, want between %d and %d", w.expires, before, after)
	}
	if w := limited.Delete(note{K: "k"}); w.expires != 0 || w.err != nil {
		t.Errorf("a delete expires: %d, %v", w.expires, w.err)
	}
	if w := w.ExpireAt(time.Time{}); w.expires != 0 || w.err != nil {
		t.Errorf("the zero time does not mean never: %d, %v", w.expires, w.err)
	}
}

func TestTablesAreUsedFromManyGoroutines(t *testing.T) {
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			v := note{K: strings.Repeat("k", g+1), C: "c", S: strings.Repeat("s", 40*g)}
			want := notes.Insert(v)
			for range 500 {
				if got := notes.Insert(v); got.err != nil || !bytes.Equal(got.row, want.row) {
					t.Errorf("rows are mixed up: %q", got.row)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestNamesBecomeSnakeCase(t *testing.T) {
	for in, want := range map[string]string{"A": "a", "EventCount": "event_count", "TopicID": "topic_id", "HTTPStatus": "http_status", "F32": "f32", "Größe": "größe"} {
		if got := snakeCase(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}
