package cassandra

import (
	"errors"
	"strings"
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
)

func TestIndexTargetsNameTheirColumn(t *testing.T) {
	for target, want := range map[string]string{"v": "v", `"V"`: "V", "values(m)": "m", `full("F""x")`: `F"x`, "entries(m)": "m", "": ""} {
		if got := indexedColumn(target); got != want {
			t.Errorf("%s: got %s, want %s", target, got, want)
		}
	}
}

// indexedTables has an index on column s of notes, for values of up to 10 bytes.
type indexedTables struct{ openTables }

func (i indexedTables) bound(t *target) (*boundTarget, bool) {
	b := t.bind("ks", tableID{})
	b.limits = (&realTable{indexed: map[string]int{"s": 10}}).limitsFor(t)
	return b, true
}

func TestValuesTooLongForAnIndexAreRefused(t *testing.T) {
	ok := notes.Insert(note{K: strings.Repeat("k", 99), C: "c", S: "0123456789"})
	if _, _, err := encodeBlob([]Write{ok, notes.Delete(note{K: "k"})}, 1, indexedTables{}, testLimits); err != nil {
		t.Error(err)
	}
	long := notes.Insert(note{K: "k", C: "c", S: "0123456789a"})
	_, _, err := encodeBlob([]Write{ok, long}, 1, indexedTables{}, testLimits)
	if !errors.Is(err, framework.ErrRefused) || !strings.Contains(err.Error(), "column s: a value of 11 bytes") {
		t.Errorf("got %v", err)
	}
}

func TestCollectionsAreIndexedByTheirParts(t *testing.T) {
	for _, tc := range []struct {
		value any
		cql   string
		want  int
	}{
		{[]string{"abc", "", "de"}, "set<text>", 3},
		{map[string]string{"a": "bcd", "ef": "g"}, "map<text, text>", 4},
		{[]string{}, "set<text>", 0},
		{[]string{"abc"}, "frozen<set<text>>", 11},
		{"abc", "text", 3},
	} {
		b, err := encoded(tc.value, tc.cql)
		if err != nil {
			t.Fatal(err)
		}
		typ, err := parseType(tc.cql)
		if err != nil {
			t.Fatal(err)
		}
		if got := termBytes(typ, b); got != tc.want {
			t.Errorf("%v as %s: got %d, want %d", tc.value, tc.cql, got, tc.want)
		}
	}
}
