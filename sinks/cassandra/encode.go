package cassandra

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/gocql/gocql"
	"gopkg.in/inf.v0"
)

// valueEncoder appends the CQL binary form of v, which has the Go type the
// encoder was made for and is addressable. It refuses what the server would
// refuse, since after a commit it is too late.
type valueEncoder func(dst []byte, v reflect.Value) ([]byte, error)

var (
	timeType     = reflect.TypeFor[time.Time]()
	ipType       = reflect.TypeFor[net.IP]()
	addrType     = reflect.TypeFor[netip.Addr]()
	decimalType  = reflect.TypeFor[inf.Dec]()
	bigIntType   = reflect.TypeFor[big.Int]()
	durationType = reflect.TypeFor[gocql.Duration]()
)

// errMismatch says that a Go type cannot be written as a CQL type.
func errMismatch(t reflect.Type, c *cqlType) error {
	return fmt.Errorf("a Go %s cannot be written as %s", t, c)
}

// encoderFor returns the encoder of Go type t for CQL type c.
func encoderFor(t reflect.Type, c *cqlType) (valueEncoder, error) {
	switch c.kind {
	case kindCounter:
		return nil, errors.New("counter columns cannot be written: adding twice is not harmless, and after a crash a save is applied again")
	case kindList, kindSet:
		return listEncoder(t, c)
	case kindMap:
		return mapEncoder(t, c)
	case kindTuple, kindUDT:
		return structEncoder(t, c)
	case kindTinyint:
		return integerEncoder(t, c, 1)
	case kindSmallint:
		return integerEncoder(t, c, 2)
	case kindInt:
		return integerEncoder(t, c, 4)
	case kindBigint:
		return integerEncoder(t, c, 8)
	}
	if enc := scalarEncoder(t, c.kind); enc != nil {
		return enc, nil
	}
	return nil, errMismatch(t, c)
}

// scalarEncoder returns nil for a pair that does not fit.
func scalarEncoder(t reflect.Type, k kind) valueEncoder {
	isBytes := t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
	isString := t.Kind() == reflect.String
	switch {
	case k == kindText && isString:
		return appendText
	case k == kindText && isBytes:
		return appendTextBytes
	case k == kindASCII && isString:
		return appendASCII
	case k == kindBlob && isBytes:
		return func(dst []byte, v reflect.Value) ([]byte, error) { return append(dst, v.Bytes()...), nil }
	case k == kindBoolean && t.Kind() == reflect.Bool:
		return appendBool
	case k == kindFloat && t.Kind() == reflect.Float32:
		return appendFloat
	case k == kindDouble && (t.Kind() == reflect.Float64 || t.Kind() == reflect.Float32):
		return appendDouble
	case k == kindTimestamp && t == timeType:
		return appendTimestamp
	case k == kindDate && t == timeType:
		return appendDate
	case k == kindTime && t.Kind() == reflect.Int64:
		return appendTimeOfDay
	case (k == kindUUID || k == kindTimeUUID) && t.Kind() == reflect.Array && t.Len() == 16 && t.Elem().Kind() == reflect.Uint8:
		return uuidEncoder(k)
	case k == kindInet && t == ipType:
		return appendIP
	case k == kindInet && t == addrType:
		return appendAddr
	case k == kindVarint && t == bigIntType:
		return driverEncoder(gocql.TypeVarint)
	case k == kindDecimal && t == decimalType:
		return driverEncoder(gocql.TypeDecimal)
	case k == kindDuration && t == durationType:
		return appendDuration
	}
	return nil
}

func appendText(dst []byte, v reflect.Value) ([]byte, error) {
	s := v.String()
	if !utf8.ValidString(s) {
		return nil, errors.New("not valid UTF-8; use a blob column for arbitrary bytes")
	}
	return append(dst, s...), nil
}

func appendTextBytes(dst []byte, v reflect.Value) ([]byte, error) {
	b := v.Bytes()
	if !utf8.Valid(b) {
		return nil, errors.New("not valid UTF-8; use a blob column for arbitrary bytes")
	}
	return append(dst, b...), nil
}

func appendASCII(dst []byte, v reflect.Value) ([]byte, error) {
	s := v.String()
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return nil, errors.New("not ASCII; use a text column")
		}
	}
	return append(dst, s...), nil
}

func appendBool(dst []byte, v reflect.Value) ([]byte, error) {
	if v.Bool() {
		return append(dst, 1), nil
	}
	return append(dst, 0), nil
}

func appendFloat(dst []byte, v reflect.Value) ([]byte, error) {
	return binary.BigEndian.AppendUint32(dst, math.Float32bits(float32(v.Float()))), nil
}

func appendDouble(dst []byte, v reflect.Value) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, math.Float64bits(v.Float())), nil
}

// appendTimestamp writes milliseconds since 1970, rounded down; the zero time is
// an ordinary time in the year 1.
func appendTimestamp(dst []byte, v reflect.Value) ([]byte, error) {
	t := *v.Addr().Interface().(*time.Time)
	return binary.BigEndian.AppendUint64(dst, uint64(t.UnixMilli())), nil
}

// appendDate writes the day in UTC, which does not depend on the machine, as
// days since 1970 around 2^31.
func appendDate(dst []byte, v reflect.Value) ([]byte, error) {
	t := *v.Addr().Interface().(*time.Time)
	midnight := t.UTC().Truncate(24 * time.Hour) // rounds down in every year
	days := midnight.Unix()/86400 + 1<<31
	if days < 0 || days > math.MaxUint32 {
		return nil, fmt.Errorf("%s is outside the range of date", t)
	}
	return binary.BigEndian.AppendUint32(dst, uint32(days)), nil
}

// appendTimeOfDay writes nanoseconds since midnight, from an int64 or a
// time.Duration.
func appendTimeOfDay(dst []byte, v reflect.Value) ([]byte, error) {
	ns := v.Int()
	if ns < 0 || ns >= int64(24*time.Hour) {
		return nil, fmt.Errorf("%d ns is not a time of day", ns)
	}
	return binary.BigEndian.AppendUint64(dst, uint64(ns)), nil
}

func uuidEncoder(k kind) valueEncoder {
	return func(dst []byte, v reflect.Value) ([]byte, error) {
		b := v.Bytes()
		if k == kindTimeUUID && b[6]>>4 != 1 {
			return nil, fmt.Errorf("a UUID of version %d is not a timeuuid", b[6]>>4)
		}
		return append(dst, b...), nil
	}
}

func appendIP(dst []byte, v reflect.Value) ([]byte, error) {
	ip := net.IP(v.Bytes())
	if v4 := ip.To4(); v4 != nil {
		return append(dst, v4...), nil
	}
	if len(ip) != net.IPv6len {
		return nil, fmt.Errorf("%d bytes are not an IP address", len(ip))
	}
	return append(dst, ip...), nil
}

func appendAddr(dst []byte, v reflect.Value) ([]byte, error) {
	a := *v.Addr().Interface().(*netip.Addr)
	if !a.IsValid() || a.Zone() != "" {
		return nil, fmt.Errorf("%q is not an IP address without zone", a)
	}
	return append(dst, a.Unmap().AsSlice()...), nil
}

// appendDuration refuses mixed signs, as the server does.
func appendDuration(dst []byte, v reflect.Value) ([]byte, error) {
	d := v.Addr().Interface().(*gocql.Duration)
	if min(int64(d.Months), int64(d.Days), d.Nanoseconds) < 0 && max(int64(d.Months), int64(d.Days), d.Nanoseconds) > 0 {
		return nil, fmt.Errorf("the parts of duration %+v differ in sign", *d)
	}
	return driverEncoder(gocql.TypeDuration)(dst, v)
}

// driverEncoder leaves the encoding of rarer types to the driver.
func driverEncoder(t gocql.Type) valueEncoder {
	info := gocql.NewNativeType(protocolVersion, t, "")
	return func(dst []byte, v reflect.Value) ([]byte, error) {
		b, err := gocql.Marshal(info, v.Addr().Interface())
		if err != nil {
			return nil, err
		}
		return append(dst, b...), nil
	}
}

// integerEncoder writes any Go integer in size bytes and refuses values that do
// not fit.
func integerEncoder(t reflect.Type, c *cqlType, size int) (valueEncoder, error) {
	limit := int64(1)<<(8*size-1) - 1
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(dst []byte, v reflect.Value) ([]byte, error) {
			n := v.Int()
			if n > limit || n < -limit-1 {
				return nil, fmt.Errorf("%d does not fit into %s", n, c)
			}
			return appendInteger(dst, n, size), nil
		}, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return func(dst []byte, v reflect.Value) ([]byte, error) {
			n := v.Uint()
			if n > uint64(limit) {
				return nil, fmt.Errorf("%d does not fit into %s", n, c)
			}
			return appendInteger(dst, int64(n), size), nil
		}, nil
	}
	return nil, errMismatch(t, c)
}

func appendInteger(dst []byte, n int64, size int) []byte {
	if size == 8 { // the usual one
		return binary.BigEndian.AppendUint64(dst, uint64(n))
	}
	for shift := 8 * (size - 1); shift >= 0; shift -= 8 {
		dst = append(dst, byte(n>>shift))
	}
	return dst
}

// listEncoder writes a Go slice or array. A set's elements are sorted, and equal
// ones written once, so that equal sets are equal bytes.
func listEncoder(t reflect.Type, c *cqlType) (valueEncoder, error) {
	if t.Kind() != reflect.Slice && t.Kind() != reflect.Array {
		return nil, errMismatch(t, c)
	}
	enc, err := encoderFor(t.Elem(), c.elems[0])
	if err != nil {
		return nil, fmt.Errorf("element: %w", err)
	}
	return func(dst []byte, v reflect.Value) ([]byte, error) {
		n := v.Len()
		parts := make([][]byte, n)
		for i := range n {
			p, err := enc(nil, v.Index(i))
			if err != nil {
				return nil, fmt.Errorf("element %d: %w", i, err)
			}
			parts[i] = p
		}
		if c.kind == kindList {
			return appendCollection(dst, parts), nil
		}
		slices.SortFunc(parts, slices.Compare)
		parts = slices.CompactFunc(parts, slices.Equal)
		if err := checkPaths(c, parts); err != nil {
			return nil, err
		}
		return appendCollection(dst, parts), nil
	}, nil
}

// mapEncoder writes a Go map, sorted by key.
func mapEncoder(t reflect.Type, c *cqlType) (valueEncoder, error) {
	if t.Kind() != reflect.Map {
		return nil, errMismatch(t, c)
	}
	encKey, err := encoderFor(t.Key(), c.elems[0])
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	encValue, err := encoderFor(t.Elem(), c.elems[1])
	if err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	return func(dst []byte, v reflect.Value) ([]byte, error) {
		keys, parts := make([][]byte, 0, v.Len()), make(map[string][]byte, v.Len())
		for it := v.MapRange(); it.Next(); {
			k, err := encodeAlone(encKey, it.Key())
			if err != nil {
				return nil, fmt.Errorf("key: %w", err)
			}
			if _, ok := parts[string(k)]; ok {
				return nil, fmt.Errorf("key %v is written like another key", it.Key())
			}
			e, err := encodeAlone(encValue, it.Value())
			if err != nil {
				return nil, fmt.Errorf("value: %w", err)
			}
			keys, parts[string(k)] = append(keys, k), e
		}
		if err := checkPaths(c, keys); err != nil {
			return nil, err
		}
		return appendMap(dst, keys, parts), nil
	}, nil
}

// encodeAlone encodes a value that is not addressable.
func encodeAlone(enc valueEncoder, v reflect.Value) ([]byte, error) {
	p := reflect.New(v.Type()).Elem()
	p.Set(v)
	return enc(nil, p)
}

// maxKeyBytes is the server's limit for a partition key, for a clustering key,
// and for an element that is a cell's name.
const maxKeyBytes = 65535

// checkPaths checks the elements or keys of a collection that is stored as one
// cell each.
func checkPaths(c *cqlType, paths [][]byte) error {
	if c.frozen {
		return nil
	}
	for _, p := range paths {
		if len(p) > maxKeyBytes {
			return fmt.Errorf("an element or key of %d bytes exceeds the %d that an unfrozen %s allows", len(p), maxKeyBytes, c.name)
		}
	}
	return nil
}

func appendCollection(dst []byte, parts [][]byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(parts)))
	for _, p := range parts {
		dst = appendSized(dst, p)
	}
	return dst
}

// appendMap writes the entries in the order of their encoded keys.
func appendMap(dst []byte, keys [][]byte, values map[string][]byte) []byte {
	slices.SortFunc(keys, slices.Compare)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(keys)))
	for _, k := range keys {
		dst = appendSized(appendSized(dst, k), values[string(k)])
	}
	return dst
}

func appendSized(dst, b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(b))), b...)
}

// structEncoder writes a Go struct as a tuple or user type, whose fields are
// the struct's in order. A nil pointer is a null field.
func structEncoder(t reflect.Type, c *cqlType) (valueEncoder, error) {
	if t.Kind() != reflect.Struct || t == timeType {
		return nil, errMismatch(t, c)
	}
	fields, err := structFields(t)
	if err != nil {
		return nil, err
	}
	if len(fields) != len(c.elems) {
		return nil, fmt.Errorf("%w: it has %d fields, not %d", errMismatch(t, c), len(fields), len(c.elems))
	}
	encs := make([]valueEncoder, len(fields))
	for i, f := range fields {
		if encs[i], err = encoderFor(pointed(f.typ), c.elems[i]); err != nil {
			return nil, fmt.Errorf("field %s: %w", f.goName, err)
		}
	}
	return func(dst []byte, v reflect.Value) ([]byte, error) {
		var err error
		for i, f := range fields {
			if dst, err = appendField(dst, v.FieldByIndex(f.index), encs[i]); err != nil {
				return nil, fmt.Errorf("field %s: %w", f.goName, err)
			}
		}
		return dst, nil
	}, nil
}

func appendField(dst []byte, v reflect.Value, enc valueEncoder) ([]byte, error) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return binary.BigEndian.AppendUint32(dst, math.MaxUint32), nil // length -1: null
		}
		v = v.Elem()
	}
	start := len(dst)
	dst, err := enc(append(dst, 0, 0, 0, 0), v)
	if err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst, nil
}
