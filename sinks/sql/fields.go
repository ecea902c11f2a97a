package sql

import (
	"database/sql/driver"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// field is one column of a table as the code knows it.
type field struct {
	column string
	index  []int // path to the field in the struct
	key    bool
	class  class
	encode encoder
}

// encoder turns a field's value into what a dialect takes (nil, bool, int64,
// float64, string, []byte, or time.Time in UTC), and returns its size in bytes.
type encoder func(v reflect.Value) (any, int, error)

var (
	timeType   = reflect.TypeFor[time.Time]()
	bytesType  = reflect.TypeFor[[]byte]()
	valuerType = reflect.TypeFor[driver.Valuer]()
)

// compile reads the db tags of struct type t.
func compile(t reflect.Type) ([]field, error) {
	if t.Kind() != reflect.Struct || t == timeType {
		return nil, fmt.Errorf("%s is not a struct; describe a row by a struct with db tags", t)
	}
	fields, err := compileStruct(t, nil)
	if err != nil {
		return nil, err
	}
	if len(fields) == 0 {
		return nil, fmt.Errorf("%s has no field with a db tag", t)
	}
	seen := map[string]bool{}
	for _, f := range fields {
		name := strings.ToLower(f.column)
		if seen[name] {
			return nil, fmt.Errorf("two fields have the column %q", f.column)
		}
		seen[name] = true
	}
	return fields, nil
}

// compileStruct returns the fields of t, those of embedded structs among them.
func compileStruct(t reflect.Type, path []int) ([]field, error) {
	var fields []field
	for i := range t.NumField() {
		sf := t.Field(i)
		tag, tagged := sf.Tag.Lookup("db")
		index := append(slices.Clone(path), i)
		switch {
		case tag == "-" || !tagged && !sf.Anonymous && !sf.IsExported():
		case !tagged && sf.Anonymous && sf.Type.Kind() == reflect.Struct:
			embedded, err := compileStruct(sf.Type, index)
			if err != nil {
				return nil, err
			}
			fields = append(fields, embedded...)
		default:
			f, err := compileField(sf, tag)
			if err != nil {
				return nil, fmt.Errorf("field %s: %w", sf.Name, err)
			}
			f.index = index
			fields = append(fields, f)
		}
	}
	return fields, nil
}

func compileField(sf reflect.StructField, tag string) (field, error) {
	column, options, _ := strings.Cut(tag, ",")
	f := field{column: column}
	if column == "" || strings.ContainsAny(column, "\x00\"") {
		return f, fmt.Errorf(`tag db:%q names no column; write db:"column", or db:"-" to leave the field out`, tag)
	}
	if !sf.IsExported() {
		return f, fmt.Errorf("a field with a db tag must be exported")
	}
	milliseconds := false
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "":
		case "key":
			f.key = true
		case "unixmilli":
			milliseconds = true
		default:
			return f, fmt.Errorf("tag db:%q has the unknown option %q; known are key and unixmilli", tag, option)
		}
	}
	var err error
	f.class, f.encode, err = encoderFor(sf.Type, milliseconds)
	return f, err
}

// encoderFor returns how values of type t are written.
func encoderFor(t reflect.Type, milliseconds bool) (class, encoder, error) {
	if milliseconds && t != timeType && t != reflect.PointerTo(timeType) {
		return 0, nil, fmt.Errorf("unixmilli is for time.Time, not %s", t)
	}
	switch {
	case t == timeType && milliseconds:
		return classInt, encodeMilliseconds, nil
	case t == timeType:
		return classTime, encodeTime, nil
	case t.Implements(valuerType):
		return classAny, encodeValuer, nil
	}
	switch t.Kind() {
	case reflect.Bool:
		return classBool, encodeBool, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return classInt, encodeInt, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return classInt, encodeUint, nil
	case reflect.Float32, reflect.Float64:
		return classFloat, encodeFloat, nil
	case reflect.String:
		return classText, encodeString, nil
	case reflect.Slice:
		if t.ConvertibleTo(bytesType) && t.Elem().Kind() == reflect.Uint8 {
			return classBytes, encodeBytes, nil
		}
	case reflect.Pointer:
		c, encode, err := encoderFor(t.Elem(), milliseconds)
		return c, encodePointer(encode), err
	}
	return 0, nil, fmt.Errorf("type %s cannot be stored; use a number, bool, string, []byte, time.Time, a pointer to one, or a driver.Valuer", t)
}

func encodePointer(encode encoder) encoder {
	return func(v reflect.Value) (any, int, error) {
		if v.IsNil() {
			return nil, 1, nil
		}
		return encode(v.Elem())
	}
}

func encodeBool(v reflect.Value) (any, int, error) { return v.Bool(), 1, nil }

func encodeInt(v reflect.Value) (any, int, error) { return v.Int(), 8, nil }

func encodeUint(v reflect.Value) (any, int, error) {
	u := v.Uint()
	if u > math.MaxInt64 {
		return nil, 0, fmt.Errorf("%d is above the largest integer a column holds", u)
	}
	return int64(u), 8, nil
}

// encodeFloat refuses NaN, which SQLite would store as NULL, and which equals
// itself in PostgreSQL alone.
func encodeFloat(v reflect.Value) (any, int, error) {
	f := v.Float()
	if math.IsNaN(f) {
		return nil, 0, fmt.Errorf("NaN cannot be stored; use a pointer and nil")
	}
	return f, 8, nil
}

func encodeString(v reflect.Value) (any, int, error) {
	s := v.String()
	if !utf8.ValidString(s) {
		return nil, 0, fmt.Errorf("text %.40q is not valid UTF-8; use []byte", s)
	}
	return s, len(s), nil
}

// encodeBytes stores a nil slice as NULL, and an empty one as empty.
func encodeBytes(v reflect.Value) (any, int, error) {
	if v.IsNil() {
		return nil, 1, nil
	}
	return v.Bytes(), v.Len(), nil
}

func encodeTime(v reflect.Value) (any, int, error) {
	t := v.Interface().(time.Time).UTC()
	if y := t.Year(); y < 0 || y > 9999 {
		return nil, 0, fmt.Errorf("time %s has no year from 0 to 9999", t)
	}
	return t, len(timeLayout), nil
}

func encodeMilliseconds(v reflect.Value) (any, int, error) {
	return v.Interface().(time.Time).UnixMilli(), 8, nil
}

// encodeValuer asks the value, and then treats what it returns as a field of
// that type would be.
func encodeValuer(v reflect.Value) (any, int, error) {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, 1, nil
	}
	value, err := v.Interface().(driver.Valuer).Value()
	if err != nil {
		return nil, 0, err
	}
	if value == nil {
		return nil, 1, nil
	}
	result := reflect.ValueOf(value)
	if result.Type().Implements(valuerType) {
		return nil, 0, fmt.Errorf("Value returned another driver.Valuer (%T)", value)
	}
	_, encode, err := encoderFor(result.Type(), false)
	if err != nil {
		return nil, 0, err
	}
	return encode(result)
}
