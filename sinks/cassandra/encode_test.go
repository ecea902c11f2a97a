package cassandra

import (
	"bytes"
	"math/big"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gocql/gocql"
	"github.com/google/uuid"
)

// encoded returns the binary form of v as cql, or the error.
func encoded(v any, cql string) ([]byte, error) {
	rv := reflect.New(reflect.TypeOf(v)).Elem()
	rv.Set(reflect.ValueOf(v))
	typ, err := typeOf(rv.Type(), cql)
	if err != nil {
		return nil, err
	}
	enc, err := encoderFor(rv.Type(), typ)
	if err != nil {
		return nil, err
	}
	return enc(nil, rv)
}

// TestEncodingAgreesWithTheDriver compares with gocql.Marshal where that does
// the same.
func TestEncodingAgreesWithTheDriver(t *testing.T) {
	native := func(k gocql.Type) gocql.TypeInfo { return gocql.NewNativeType(protocolVersion, k, "") }
	list := gocql.CollectionType{NativeType: gocql.NewNativeType(protocolVersion, gocql.TypeList, ""), Elem: native(gocql.TypeVarchar)}
	for _, tc := range []struct {
		value any
		cql   string
		info  gocql.TypeInfo
	}{
		{"grüße", "text", native(gocql.TypeVarchar)},
		{int8(-3), "tinyint", native(gocql.TypeTinyInt)},
		{int16(-300), "smallint", native(gocql.TypeSmallInt)},
		{int32(-70000), "int", native(gocql.TypeInt)},
		{int64(-1) << 40, "bigint", native(gocql.TypeBigInt)},
		{7, "", native(gocql.TypeBigInt)},
		{true, "", native(gocql.TypeBoolean)},
		{float32(1.25), "", native(gocql.TypeFloat)},
		{-2.5, "", native(gocql.TypeDouble)},
		{time.UnixMilli(-5), "", native(gocql.TypeTimestamp)},
		{time.Date(2024, 2, 29, 23, 0, 0, 0, time.UTC), "date", native(gocql.TypeDate)},
		{5 * time.Hour, "time", native(gocql.TypeTime)},
		{net.ParseIP("1.2.3.4"), "", native(gocql.TypeInet)},
		{net.ParseIP("::1"), "", native(gocql.TypeInet)},
		{*big.NewInt(-256), "", native(gocql.TypeVarint)},
		{gocql.Duration{Months: 1, Days: 2, Nanoseconds: 3}, "", native(gocql.TypeDuration)},
		{[]string{"b", "", "a"}, "list<text>", list},
		{[]string{}, "", list},
	} {
		got, err := encoded(tc.value, tc.cql)
		if err != nil {
			t.Errorf("%T %v: %v", tc.value, tc.value, err)
			continue
		}
		want, err := gocql.Marshal(tc.info, tc.value)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%T %v: got %x, the driver %x (%v)", tc.value, tc.value, got, want, err)
		}
	}
}

func TestEncodingIsCanonical(t *testing.T) {
	same := func(a, b any, cql string) {
		t.Helper()
		x, err1 := encoded(a, cql)
		y, err2 := encoded(b, cql)
		if err1 != nil || err2 != nil || !bytes.Equal(x, y) {
			t.Errorf("%v and %v: %x (%v) and %x (%v)", a, b, x, err1, y, err2)
		}
	}
	same([]string{"b", "a", "b"}, []string{"a", "b"}, "set<text>")
	many := map[string]int64{}
	for i := range 100 {
		many[strings.Repeat("k", i)] = int64(i)
	}
	for range 10 {
		same(many, many, "")
	}
	same(net.ParseIP("1.2.3.4"), net.IPv4(1, 2, 3, 4).To4(), "")
	same(netip.MustParseAddr("::ffff:1.2.3.4"), netip.MustParseAddr("1.2.3.4"), "")
	same(time.Date(2024, 1, 1, 0, 30, 0, 0, time.FixedZone("", 3600)), time.Date(2023, 12, 31, 23, 30, 0, 0, time.UTC), "date")
}

func TestTheZeroTimeAndTheEmptyListAreValues(t *testing.T) {
	for _, tc := range []struct {
		value any
		cql   string
		size  int
	}{
		{time.Time{}, "timestamp", 8}, {time.Time{}, "date", 4}, {[]string(nil), "frozen<list<text>>", 4},
		{map[string]string(nil), "map<text, text>", 4}, {uuid.UUID{}, "uuid", 16}, {[]byte(nil), "blob", 0},
	} {
		if got, err := encoded(tc.value, tc.cql); err != nil || len(got) != tc.size {
			t.Errorf("%T as %s: got %x, %v, want %d bytes", tc.value, tc.cql, got, err, tc.size)
		}
	}
}

func TestValuesTheServerWouldRefuseAreRefused(t *testing.T) {
	type point struct {
		X int32
		Y *string
	}
	bad := "\xff"
	for _, tc := range []struct {
		value any
		cql   string
		want  string
	}{
		{bad, "text", "UTF-8"},
		{[]byte(bad), "text", "UTF-8"},
		{"ü", "ascii", "ASCII"},
		{300, "tinyint", "does not fit"},
		{-32769, "smallint", "does not fit"},
		{uint32(1 << 31), "int", "does not fit"},
		{uint64(1) << 63, "bigint", "does not fit"},
		{24 * time.Hour, "time", "time of day"},
		{-time.Second, "time", "time of day"},
		{uuid.UUID{}, "timeuuid", "not a timeuuid"},
		{net.IP{1, 2}, "inet", "not an IP"},
		{net.IP(nil), "inet", "not an IP"},
		{netip.Addr{}, "inet", "not an IP"},
		{netip.MustParseAddr("fe80::1%eth0"), "inet", "not an IP"},
		{gocql.Duration{Months: 1, Days: -1}, "duration", "sign"},
		{time.Date(6_000_000, 1, 1, 0, 0, 0, 0, time.UTC), "date", "outside"},
		{[]string{"a", bad}, "list<text>", "element 1"},
		{map[string]string{"a": bad}, "", "value"},
		{map[time.Time]int64{time.Unix(1, 1): 1, time.Unix(1, 2): 2}, "", "like another key"},
		{[]string{strings.Repeat("x", 65536)}, "set<text>", "65536"},
		{map[string]bool{strings.Repeat("x", 65536): true}, "map<text, boolean>", "65536"},
		{point{Y: &bad}, "frozen<point>", "field Y"},
	} {
		got, err := encoded(tc.value, tc.cql)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%T as %s: got %x, %v, want an error with %q", tc.value, tc.cql, got, err, tc.want)
		}
	}
}

func TestGoTypesThatDoNotFitAreRefused(t *testing.T) {
	for _, tc := range []struct {
		value any
		cql   string
	}{
		{"a", "int"}, {1, "text"}, {1.5, "int"}, {1.5, "float"}, {[]int64{}, "text"}, {"a", "blob"}, {[15]byte{}, "uuid"},
		{"2024-01-01", "date"}, {int64(0), "timestamp"}, {struct{}{}, ""}, {uint64(0), ""}, {make(chan int), ""}, {any(func() {}), ""},
		{int64(0), "counter"}, {[]*string{}, "list<text>"}, {map[string]any{}, ""}, {"a", "frozen<address>"}, {"", "list<text>"}, {"", "map<text, text>"},
		{struct{ A, B string }{}, "tuple<text>"}, {struct{}{}, "frozen<empty>"}, {time.Time{}, "frozen<address>"},
	} {
		if got, err := encoded(tc.value, tc.cql); err == nil {
			t.Errorf("%T as %q: got %x, want an error", tc.value, tc.cql, got)
		}
	}
}
