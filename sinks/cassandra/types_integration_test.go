//go:build integration

package cassandra

import (
	"math"
	"math/big"
	"net"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/gocql/gocql"
	"github.com/google/uuid"
	"gopkg.in/inf.v0"
)

type address struct {
	Street string  `cql:"street"`
	Number int32   `cql:"number"`
	Extra  *string `cql:"extra"`
}

type pair struct {
	Name string
	Data []byte
}

// everything has a column of each supported type.
type everything struct {
	ID       uuid.UUID `cql:"id,partition"`
	At       time.Time `cql:"at,clustering"`
	Text     string
	ASCII    string `cql:"ascii_text,type=ascii"`
	Blob     []byte
	TextByte []byte `cql:"text_bytes,type=text"`
	Yes      bool
	Tiny     int8
	Small    int16
	Medium   int32
	Big      int64
	Plain    int
	Narrow   int    `cql:"narrow,type=smallint"`
	Unsigned uint32 `cql:"unsigned,type=bigint"`
	F32      float32
	F64      float64
	Var      big.Int
	Dec      inf.Dec
	Day      time.Time     `cql:"day,type=date"`
	Clock    time.Duration `cql:"clock,type=time"`
	Span     gocql.Duration
	IP       net.IP
	Addr     netip.Addr
	Driver   gocql.UUID
	TimeUUID gocql.UUID `cql:"time_uuid,type=timeuuid"`
	List     []string
	Set      []int32          `cql:"set_,type=frozen<set<int>>"`
	Map      map[string]int64 `cql:"map_"`
	OpenSet  []string         `cql:"open_set,type=set<text>"`
	OpenMap  map[int32]string `cql:"open_map,type=map<int, text>"`
	Deep     map[string][][]byte
	Home     address   `cql:"home,type=frozen<address>"`
	Homes    []address `cql:"homes,type=frozen<list<address>>"`
	Open     address   `cql:"open_home,type=address"`
	Pairs    []pair    `cql:"pairs,type=frozen<list<tuple<text, blob>>>"`
	Pointer  *string
	Choice   Optional[int32]
}

const everythingSchema = `
CREATE TYPE IF NOT EXISTS address (street text, number int, extra text);
CREATE TABLE IF NOT EXISTS everything (
  id uuid, at timestamp, text text, ascii_text ascii, blob blob, text_bytes text, yes boolean,
  tiny tinyint, small smallint, medium int, big bigint, plain bigint, narrow smallint, unsigned bigint,
  f32 float, f64 double, var varint, dec decimal, day date, clock time, span duration, ip inet, addr inet,
  driver uuid, time_uuid timeuuid, list frozen<list<text>>, set_ frozen<set<int>>, map_ frozen<map<text, bigint>>,
  open_set set<text>, open_map map<int, text>, deep frozen<map<text, list<blob>>>,
  home frozen<address>, homes frozen<list<frozen<address>>>, open_home address, pairs frozen<list<frozen<tuple<text, blob>>>>,
  pointer text, choice int, PRIMARY KEY (id, at));`

func sample() everything {
	extra, text := "second floor", "there"
	home := address{"Main Street", 7, &extra}
	return everything{
		ID: uuid.New(), At: time.UnixMilli(1_700_000_000_123).UTC(),
		Text: "grüße", ASCII: "plain", Blob: []byte{0, 255}, TextByte: []byte("{}"), Yes: true,
		Tiny: -128, Small: math.MinInt16, Medium: math.MaxInt32, Big: math.MinInt64, Plain: math.MaxInt64,
		Narrow: -32768, Unsigned: math.MaxUint32, F32: 1.5, F64: -math.Pi,
		Var: *new(big.Int).Lsh(big.NewInt(-3), 200), Dec: *inf.NewDec(-12345, 3),
		Day: time.Date(1969, 12, 30, 23, 59, 0, 0, time.UTC), Clock: 23*time.Hour + 1,
		Span: gocql.Duration{Months: -1, Days: -2, Nanoseconds: -3}, IP: net.ParseIP("10.1.2.3"), Addr: netip.MustParseAddr("2001:db8::1"),
		Driver: gocql.MustRandomUUID(), TimeUUID: gocql.TimeUUID(), List: []string{"b", "a", ""}, Set: []int32{3, -1, 3},
		Map: map[string]int64{"x": 1, "": -1}, OpenSet: []string{"u", "t"}, OpenMap: map[int32]string{-5: "e", 5: "f"},
		Deep: map[string][][]byte{"k": {{1}, {2, 3}}}, Home: home, Homes: []address{home, {Street: "x"}}, Open: home,
		Pairs: []pair{{"n", []byte{9}}, {"", nil}}, Pointer: &text, Choice: Set(int32(8)),
	}
}

// TestEveryTypeIsReadBackAsItWasWritten writes through our encoding and reads
// with the driver's own.
func TestEveryTypeIsReadBackAsItWasWritten(t *testing.T) {
	cfg, s := withTables(t, everythingSchema)
	table := NewTable[everything]("everything")
	c := checked(t, cfg, s, table)
	for name, row := range map[string]everything{
		"with values": sample(),
		"zero values": {ID: uuid.New(), Addr: netip.MustParseAddr("::"), IP: net.IPv4zero, TimeUUID: gocql.TimeUUID()},
	} {
		t.Run(name, func(t *testing.T) {
			applied(t, c, 1000, time.Now(), table.Insert(row))
			compareWithDriver(t, s, row)
		})
	}
}

func compareWithDriver(t *testing.T, s *gocql.Session, row everything) {
	t.Helper()
	got := map[string]any{}
	if err := s.Query("SELECT * FROM everything WHERE id = ?", gocql.UUID(row.ID)).MapScan(got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"id": gocql.UUID(row.ID), "at": row.At.UTC(), "text": row.Text, "ascii_text": row.ASCII, "blob": orEmpty(row.Blob), "text_bytes": string(row.TextByte),
		"yes": row.Yes, "tiny": row.Tiny, "small": row.Small, "medium": int(row.Medium), "big": row.Big, "plain": int64(row.Plain),
		"narrow": int16(row.Narrow), "unsigned": int64(row.Unsigned), "f32": row.F32, "f64": row.F64,
		"day": row.Day.UTC().Truncate(24 * time.Hour), "clock": row.Clock, "span": row.Span,
		"ip": row.IP.String(), "addr": row.Addr.String(), "driver": row.Driver, "time_uuid": row.TimeUUID,
		"list": row.List, "map_": row.Map, "open_map": openMap(row.OpenMap), "deep": row.Deep,
	}
	for name, w := range want {
		g := got[name]
		switch typed := g.(type) {
		case net.IP:
			g = typed.String()
		case time.Time:
			g = typed.UTC()
		}
		if !reflect.DeepEqual(g, w) && !bothEmpty(g, w) {
			t.Errorf("column %s: got %#v (%T), want %#v (%T)", name, g, g, w, w)
		}
	}
	compareStructs(t, s, row)
}

// compareStructs compares the columns that the driver does not put into a map
// as Go values of the row.
func compareStructs(t *testing.T, s *gocql.Session, row everything) {
	t.Helper()
	var v big.Int
	var dec inf.Dec
	var set []int32
	var openSet []string
	var home, open address
	var homes []address
	var pairs [][]any
	var pointer *string
	var choice *int32
	err := s.Query("SELECT var, dec, set_, open_set, home, homes, open_home, pairs, pointer, choice FROM everything WHERE id = ?", gocql.UUID(row.ID)).
		Scan(&v, &dec, &set, &openSet, &home, &homes, &open, &pairs, &pointer, &choice)
	if err != nil {
		t.Fatal(err)
	}
	if v.Cmp(&row.Var) != 0 || dec.Cmp(&row.Dec) != 0 {
		t.Errorf("numbers: got %v %v, want %v %v", &v, &dec, &row.Var, &row.Dec)
	}
	if row.Set != nil && !reflect.DeepEqual(set, []int32{-1, 3}) {
		t.Errorf("set: got %v", set)
	}
	if row.OpenSet != nil && !reflect.DeepEqual(openSet, []string{"t", "u"}) {
		t.Errorf("open set: got %v", openSet)
	}
	if !reflect.DeepEqual(home, row.Home) || !reflect.DeepEqual(open, row.Open) || len(homes) != len(row.Homes) ||
		(len(homes) > 0 && !reflect.DeepEqual(homes, row.Homes)) {
		t.Errorf("user types: got %v %v %v, want %v %v %v", home, open, homes, row.Home, row.Open, row.Homes)
	}
	if len(pairs) != len(row.Pairs) {
		t.Errorf("tuples: got %v, want %v", pairs, row.Pairs)
	}
	for i, p := range row.Pairs {
		if pairs[i][0] != p.Name || string(pairs[i][1].([]byte)) != string(p.Data) {
			t.Errorf("tuple: got %v, want %v", pairs[i], p)
		}
	}
	if !reflect.DeepEqual(pointer, row.Pointer) {
		t.Errorf("pointer: got %v, want %v", pointer, row.Pointer)
	}
	want, ok := row.Choice.Get()
	if (choice != nil) != ok || (ok && *choice != want) {
		t.Errorf("optional: got %v, want %v", choice, row.Choice)
	}
}

func orEmpty(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func openMap(m map[int32]string) map[int]string {
	out := map[int]string{}
	for k, v := range m {
		out[int(k)] = v
	}
	return out
}

func bothEmpty(a, b any) bool {
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	sized := func(v reflect.Value) bool { return v.Kind() == reflect.Slice || v.Kind() == reflect.Map }
	return sized(va) && sized(vb) && va.Len() == 0 && vb.Len() == 0
}
