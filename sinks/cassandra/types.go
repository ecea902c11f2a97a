package cassandra

import (
	"fmt"
	"strings"
)

// kind is the outermost part of a CQL type.
type kind uint8

const (
	kindASCII kind = iota + 1
	kindBigint
	kindBlob
	kindBoolean
	kindCounter
	kindDate
	kindDecimal
	kindDouble
	kindDuration
	kindFloat
	kindInet
	kindInt
	kindSmallint
	kindText
	kindTime
	kindTimestamp
	kindTimeUUID
	kindTinyint
	kindUUID
	kindVarint
	kindList
	kindMap
	kindSet
	kindTuple
	kindUDT
)

// natives are the types without parameters, by their names in CQL.
var natives = map[string]kind{
	"ascii": kindASCII, "bigint": kindBigint, "blob": kindBlob, "boolean": kindBoolean,
	"counter": kindCounter, "date": kindDate, "decimal": kindDecimal, "double": kindDouble,
	"duration": kindDuration, "float": kindFloat, "inet": kindInet, "int": kindInt,
	"smallint": kindSmallint, "text": kindText, "time": kindTime, "timestamp": kindTimestamp,
	"timeuuid": kindTimeUUID, "tinyint": kindTinyint, "uuid": kindUUID, "varchar": kindText,
	"varint": kindVarint,
}

// generics are the types with parameters, and how many they take (0: one or more).
var generics = map[string]struct {
	kind  kind
	elems int
}{
	"list": {kindList, 1}, "map": {kindMap, 2}, "set": {kindSet, 1}, "tuple": {kindTuple, 0},
}

// cqlType is the type of a column or of a part of one. It is immutable.
type cqlType struct {
	kind   kind
	name   string // a native's or user type's name
	frozen bool   // written as one value; always false inside a frozen type
	elems  []*cqlType
	// fields are the names of a user type's fields, and elems their types. Both
	// are nil in a type that was only parsed.
	fields []string
}

// String returns the type as system_schema.columns spells it, with frozen on the
// outermost type only: inside a frozen one it means nothing.
func (t *cqlType) String() string {
	s := t.name
	if t.kind != kindUDT && len(t.elems) > 0 {
		parts := make([]string, len(t.elems))
		for i, e := range t.elems {
			parts[i] = e.String()
		}
		s += "<" + strings.Join(parts, ", ") + ">"
	}
	if t.frozen {
		return "frozen<" + s + ">"
	}
	return s
}

// multiCell reports whether Cassandra stores the type as several cells, which
// merge one by one.
func (t *cqlType) multiCell() bool { return t.kind >= kindList && !t.frozen }

// parseType parses a type as CQL writes it.
func parseType(s string) (*cqlType, error) {
	p := typeParser{rest: s}
	t, err := p.parse(false)
	if err == nil && strings.TrimSpace(p.rest) != "" {
		err = fmt.Errorf("unexpected %q", p.rest)
	}
	if err != nil {
		return nil, fmt.Errorf("type %q: %w", s, err)
	}
	return t, nil
}

type typeParser struct {
	rest  string
	depth int
}

// maxTypeDepth bounds nesting, for types from outside.
const maxTypeDepth = 16

// parse reads one type. within says that a frozen type encloses it.
func (p *typeParser) parse(within bool) (*cqlType, error) {
	if p.depth++; p.depth > maxTypeDepth {
		return nil, fmt.Errorf("nested more than %d deep", maxTypeDepth)
	}
	defer func() { p.depth-- }()
	name, quoted, err := p.name()
	if err != nil {
		return nil, err
	}
	lower := strings.ToLower(name)
	if k, ok := natives[lower]; ok && !quoted {
		if k == kindText {
			lower = "text"
		}
		return &cqlType{kind: k, name: lower}, nil
	}
	if p.accept('<') && !quoted {
		return p.parseGeneric(lower, within)
	}
	if quoted {
		return &cqlType{kind: kindUDT, name: userTypeName(name)}, nil
	}
	return &cqlType{kind: kindUDT, name: lower}, nil
}

// userTypeName spells the name of a user type, as it is, within a type: quoted
// where it would otherwise mean something else.
func userTypeName(name string) string {
	_, native := natives[name]
	_, generic := generics[name]
	if native || generic || name == "frozen" || strings.ContainsFunc(name, func(r rune) bool { return !inName(r) || (r >= 'A' && r <= 'Z') }) {
		return quoteIdentifier(name)
	}
	return name
}

// inName reports whether a name may contain r without being quoted.
func inName(r rune) bool {
	return r == '_' || (r >= '0' && r <= '9') || (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z')
}

// parseGeneric reads the parameters of the type name, after "<".
func (p *typeParser) parseGeneric(name string, within bool) (*cqlType, error) {
	if name == "frozen" {
		t, err := p.parse(true)
		if err != nil {
			return nil, err
		}
		if t.kind < kindList {
			return nil, fmt.Errorf("%s cannot be frozen", t)
		}
		t.frozen = !within
		return t, p.expect('>')
	}
	g, ok := generics[name]
	if !ok {
		return nil, fmt.Errorf("%s<…> is not supported", name)
	}
	t := &cqlType{kind: g.kind, name: name, frozen: g.kind == kindTuple && !within}
	for {
		e, err := p.parse(within || t.frozen)
		if err != nil {
			return nil, err
		}
		t.elems = append(t.elems, e)
		if !p.accept(',') {
			break
		}
	}
	if g.elems != 0 && len(t.elems) != g.elems {
		return nil, fmt.Errorf("%s takes %d parameters, not %d", name, g.elems, len(t.elems))
	}
	return t, p.expect('>')
}

// name reads a name, which may be quoted.
func (p *typeParser) name() (name string, quoted bool, err error) {
	p.rest = strings.TrimSpace(p.rest)
	if strings.HasPrefix(p.rest, `"`) {
		end := strings.Index(p.rest[1:], `"`)
		if end < 1 {
			return "", false, fmt.Errorf("bad quoted name at %q", p.rest)
		}
		name, p.rest = p.rest[1:end+1], p.rest[end+2:]
		return name, true, nil
	}
	end := strings.IndexFunc(p.rest, func(r rune) bool { return !inName(r) })
	if end < 0 {
		end = len(p.rest)
	}
	if end == 0 {
		return "", false, fmt.Errorf("expected a type at %q", p.rest)
	}
	name, p.rest = p.rest[:end], p.rest[end:]
	return name, false, nil
}

func (p *typeParser) accept(c byte) bool {
	p.rest = strings.TrimSpace(p.rest)
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *typeParser) expect(c byte) error {
	if !p.accept(c) {
		return fmt.Errorf("expected %q at %q", c, p.rest)
	}
	return nil
}
