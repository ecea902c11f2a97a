package cassandra

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestAWriteShowsWhatItDoes(t *testing.T) {
	type shown struct {
		K  string    `cql:"k,partition"`
		C  int32     `cql:"c,clustering"`
		At time.Time `cql:"at"`
		N  int64     `cql:"n"`
		F  float64   `cql:"f"`
		B  []byte    `cql:"b"`
		Ok bool      `cql:"ok"`
		ID [16]byte  `cql:"id"`
		T  int8      `cql:"t"`
		S  int16     `cql:"s"`
		P  *string   `cql:"p"`
		O  Optional[string]
		L  []string `cql:"l,type=set<text>"`
	}
	table := NewTable[shown]("shown")
	if _, err := table.declared(); err != nil {
		t.Fatal(err)
	}
	v := shown{
		K: "a", C: -1, At: time.UnixMilli(1_700_000_000_123), N: -3, F: 1.5, B: []byte{0, 255}, Ok: true,
		ID: [16]byte{0x12, 0x34, 15: 1}, T: -4, S: -5, O: Clear[string](), L: []string{"x"},
	}
	for want, w := range map[string]Write{
		"upsert shown(k=a, c=-1, at=2023-11-14T22:13:20.123Z, n=-3, f=1.5, b=0x00ff, ok=true, id=12340000-0000-0000-0000-000000000001, t=-4, s=-5, o=NULL, l=0x000000010000000178)": table.Upsert(v),
		"delete shown(k=a, c=-1)":                                table.Delete(v),
		"insert notes(k=a, c=b, s=x) until 2033-05-18T03:33:20Z": notes.Insert(note{K: "a", C: "b", S: "x"}).ExpireAt(time.Unix(2_000_000_000, 0)),
		"empty write": {},
	} {
		if got := fmt.Sprint(w); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if got := notes.Insert(note{K: strings.Repeat("é", 10_000)}).String(); len(got) > 200 || strings.Contains(got, "\ufffd") {
		t.Errorf("a long value gives %d bytes: %s", len(got), got)
	}
	if got := notes.Insert(note{K: "\xff"}).String(); !strings.Contains(got, "refused") || !strings.Contains(got, "UTF-8") {
		t.Errorf("got %q, want the reason", got)
	}
}

// TestAWriteIsCheckedWithoutACluster wants of a write by itself what a sink says
// of it.
func TestAWriteIsCheckedWithoutACluster(t *testing.T) {
	good := notes.Insert(note{K: "k"})
	if size, err := good.Check(); err != nil || size != good.size() {
		t.Errorf("a good write: %d, %v", size, err)
	}
	for name, w := range map[string]Write{
		"empty":     {},
		"bad text":  notes.Insert(note{K: "\xff"}),
		"too large": notes.Insert(note{K: "k", S: strings.Repeat("s", defaultMaxWrite)}),
	} {
		if size, err := w.Check(); err == nil || size != 0 {
			t.Errorf("%s: %d, %v; want it refused", name, size, err)
		}
	}
}
