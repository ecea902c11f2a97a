package sql

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// postgresTypes are the types that hold a class of values unchanged, the one to
// recommend first, as PostgreSQL spells them.
var postgresTypes = map[class][]string{
	classBool:  {"boolean"},
	classInt:   {"bigint", "integer", "smallint"},
	classFloat: {"double precision"},
	classText:  {"text", "character varying"},
	classBytes: {"bytea"},
	classTime:  {"timestamp with time zone"},
}

// holds allows the types that are listed, and no conversions: PostgreSQL makes
// few, and none that gives back what it was given.
func (postgres) holds(declared string, c class) string {
	name, _ := typeName(declared)
	if slices.Contains(allowedFor(c), name) {
		return ""
	}
	if c == classAny {
		return fmt.Sprintf("it is declared %s, which the sink cannot write; known are %s", declared, strings.Join(allowedFor(c), ", "))
	}
	return fmt.Sprintf("it is declared %s, which would not keep %s as they are; declare it %s", declared, c, postgresTypes[c][0])
}

func allowedFor(c class) []string {
	if c != classAny {
		return postgresTypes[c]
	}
	var all []string
	for c := classBool; c <= classTime; c++ {
		all = append(all, postgresTypes[c]...)
	}
	return all
}

// typeName takes "character varying(20)" apart; 0 is no limit.
func typeName(declared string) (name string, limit int) {
	name, rest, found := strings.Cut(declared, "(")
	if !found {
		return declared, 0
	}
	limit, err := strconv.Atoi(strings.TrimSuffix(rest, ")"))
	if err != nil {
		return declared, 0 // numeric(10,2), timestamp(3) with time zone
	}
	return name, limit
}

// limits refuses what would be cut, or refused when all the rest of a batch is on
// its way.
func (postgres) limits(declared string) func(v any) error {
	name, limit := typeName(declared)
	switch name {
	case "smallint":
		return integerLimit(math.MinInt16, math.MaxInt16)
	case "integer":
		return integerLimit(math.MinInt32, math.MaxInt32)
	case "bigint":
		return integerLimit(math.MinInt64, math.MaxInt64)
	case "text", "character varying":
		return textLimit(limit)
	case "boolean":
		return only[bool]
	case "double precision":
		return only[float64]
	case "bytea":
		return only[[]byte]
	case "timestamp with time zone":
		return only[time.Time]
	default:
		return func(any) error { return fmt.Errorf("the sink cannot write columns declared %s", declared) }
	}
}

// only refuses all values that are no T, which a driver.Valuer may return.
func only[T any](v any) error {
	if _, ok := v.(T); !ok {
		var want T
		return fmt.Errorf("a value of %T was given, the column holds %T", v, want)
	}
	return nil
}

func integerLimit(least, most int64) func(any) error {
	return func(v any) error {
		if err := only[int64](v); err != nil {
			return err
		}
		if i := v.(int64); i < least || i > most {
			return fmt.Errorf("%d is not between %d and %d, which is what the column holds", i, least, most)
		}
		return nil
	}
}

// textLimit counts characters, as PostgreSQL does; 0 is no limit.
func textLimit(limit int) func(any) error {
	return func(v any) error {
		if err := only[string](v); err != nil {
			return err
		}
		s := v.(string)
		if at := strings.IndexByte(s, 0); at >= 0 {
			return fmt.Errorf("text %.40q has a NUL at byte %d, which PostgreSQL does not store; use []byte", s, at)
		}
		if n := utf8.RuneCountInString(s); limit > 0 && n > limit {
			return fmt.Errorf("text %.40q has %d characters, the column holds %d", s, n, limit)
		}
		return nil
	}
}
