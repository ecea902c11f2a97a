package cassandra

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"
)

// structField is one exported field of a row or user type.
type structField struct {
	goName string
	column string
	index  []int
	typ    reflect.Type
	role   role
	cql    string // type= of the tag, or ""
}

// structFields returns the fields of t in order, those of embedded structs in
// their place.
func structFields(t reflect.Type) ([]structField, error) {
	var fields []structField
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("cql")
		if tag == "-" || (!f.IsExported() && !f.Anonymous) {
			if tagged && tag != "-" {
				return nil, fmt.Errorf("field %s has a cql tag but is not exported", f.Name)
			}
			continue
		}
		if f.Anonymous && !tagged {
			inner, err := embeddedFields(f)
			if err != nil {
				return nil, err
			}
			fields = append(fields, inner...)
			continue
		}
		sf, err := parseTag(f, tag)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", f.Name, err)
		}
		fields = append(fields, sf)
	}
	return fields, nil
}

func embeddedFields(f reflect.StructField) ([]structField, error) {
	if f.Type.Kind() != reflect.Struct {
		return nil, fmt.Errorf("embedded field %s: only structs can be embedded; give it a cql tag", f.Name)
	}
	inner, err := structFields(f.Type)
	for i := range inner {
		inner[i].goName = f.Name + "." + inner[i].goName
		inner[i].index = append([]int{f.Index[0]}, inner[i].index...)
	}
	return inner, err
}

// parseTag reads name,option,… where an option is partition, clustering or type=.
func parseTag(f reflect.StructField, tag string) (structField, error) {
	parts := splitTag(tag)
	sf := structField{goName: f.Name, column: strings.TrimSpace(parts[0]), index: f.Index, typ: f.Type, role: roleRegular}
	if sf.column == "" {
		sf.column = snakeCase(f.Name)
	}
	for _, option := range parts[1:] {
		option = strings.TrimSpace(option)
		switch {
		case option == "partition" && sf.role == roleRegular:
			sf.role = rolePartition
		case option == "clustering" && sf.role == roleRegular:
			sf.role = roleClustering
		case strings.HasPrefix(option, "type=") && len(option) > len("type=") && sf.cql == "":
			sf.cql = strings.TrimPrefix(option, "type=")
		default:
			return sf, fmt.Errorf("tag option %q: expected partition, clustering or type=…, each at most once", option)
		}
	}
	return sf, nil
}

// splitTag splits at the commas that are not within <…>.
func splitTag(tag string) []string {
	depth := 0
	return splitFunc(tag, func(r rune) bool {
		switch r {
		case '<':
			depth++
		case '>':
			depth--
		}
		return r == ',' && depth == 0
	})
}

// splitFunc splits at the runes for which at is true, keeping empty parts.
func splitFunc(s string, at func(rune) bool) []string {
	var parts []string
	start := 0
	for i, r := range s {
		if at(r) {
			parts = append(parts, s[start:i])
			start = i + 1
		}
	}
	return append(parts, s[start:])
}

// snakeCase turns EventCount into event_count and TopicID into topic_id.
func snakeCase(name string) string {
	var b strings.Builder
	rs := []rune(name)
	for i, r := range rs {
		startsWord := unicode.IsUpper(r) && i > 0 &&
			(!unicode.IsUpper(rs[i-1]) || (i+1 < len(rs) && unicode.IsLower(rs[i+1])))
		if startsWord {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
