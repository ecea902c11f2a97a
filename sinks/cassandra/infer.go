package cassandra

import (
	"fmt"
	"reflect"
)

// inferType returns the CQL type that a Go type is written as unless its tag
// says otherwise.
func inferType(t reflect.Type) (*cqlType, error) {
	native := func(k kind) (*cqlType, error) { return nativeType(k), nil }
	switch t {
	case timeType:
		return native(kindTimestamp)
	case ipType, addrType:
		return native(kindInet)
	case bigIntType:
		return native(kindVarint)
	case decimalType:
		return native(kindDecimal)
	case durationType:
		return native(kindDuration)
	}
	switch t.Kind() {
	case reflect.String:
		return native(kindText)
	case reflect.Bool:
		return native(kindBoolean)
	case reflect.Int8:
		return native(kindTinyint)
	case reflect.Int16:
		return native(kindSmallint)
	case reflect.Int32:
		return native(kindInt)
	case reflect.Int, reflect.Int64:
		return native(kindBigint)
	case reflect.Float32:
		return native(kindFloat)
	case reflect.Float64:
		return native(kindDouble)
	case reflect.Array:
		if t.Len() == 16 && t.Elem().Kind() == reflect.Uint8 {
			return native(kindUUID)
		}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return native(kindBlob)
		}
		return inferCollection(kindList, t.Elem())
	case reflect.Map:
		return inferCollection(kindMap, t.Key(), t.Elem())
	}
	return nil, fmt.Errorf("no CQL type is known for a Go %s; name it in the tag with type=", t)
}

func inferCollection(k kind, parts ...reflect.Type) (*cqlType, error) {
	c := &cqlType{kind: k, name: kindName(k), frozen: true}
	for _, p := range parts {
		e, err := inferType(p)
		if err != nil {
			return nil, err
		}
		e.frozen = false // within a frozen type
		c.elems = append(c.elems, e)
	}
	return c, nil
}

// nativeType returns the type of a kind without parameters.
func nativeType(k kind) *cqlType { return &cqlType{kind: k, name: kindName(k)} }

// kindName returns the name of a kind in CQL.
func kindName(k kind) string {
	for name, g := range generics {
		if g.kind == k {
			return name
		}
	}
	for name, n := range natives {
		if n == k && name != "varchar" {
			return name
		}
	}
	return ""
}

// pointed returns what a pointer type points to, and any other type itself.
func pointed(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// typeOf returns the complete CQL type that a Go type is written as. text is the
// tag's type, or "" to infer it.
func typeOf(t reflect.Type, text string) (*cqlType, error) {
	if text == "" {
		return inferType(t)
	}
	c, err := parseType(text)
	if err != nil {
		return nil, err
	}
	return c, complete(t, c, false)
}

// complete fills the fields of user types into a type just parsed, from the Go
// type that is written as it. The schema check compares them with the real ones.
func complete(t reflect.Type, c *cqlType, within bool) error {
	within = within || c.frozen
	parts := []reflect.Type{}
	switch c.kind {
	case kindUDT:
		return completeUDT(t, c, within)
	case kindTuple:
		if t.Kind() != reflect.Struct {
			return errMismatch(t, c)
		}
		fields, err := structFields(t)
		if err != nil {
			return err
		}
		for _, f := range fields {
			parts = append(parts, pointed(f.typ))
		}
	case kindList, kindSet:
		if t.Kind() != reflect.Slice && t.Kind() != reflect.Array {
			return errMismatch(t, c)
		}
		parts = append(parts, t.Elem())
	case kindMap:
		if t.Kind() != reflect.Map {
			return errMismatch(t, c)
		}
		parts = append(parts, t.Key(), t.Elem())
	}
	for i := range min(len(parts), len(c.elems)) {
		if err := complete(parts[i], c.elems[i], within); err != nil {
			return err
		}
	}
	return nil
}

func completeUDT(t reflect.Type, c *cqlType, within bool) error {
	if t.Kind() != reflect.Struct {
		return errMismatch(t, c)
	}
	fields, err := structFields(t)
	if err != nil {
		return err
	}
	if len(fields) == 0 {
		return fmt.Errorf("a Go %s has no fields to write as %s", t, c)
	}
	for _, f := range fields {
		if f.role != roleRegular {
			return fmt.Errorf("field %s of user type %s cannot be part of a key", f.goName, c.name)
		}
		e, err := typeOf(pointed(f.typ), f.cql)
		if err != nil {
			return fmt.Errorf("field %s: %w", f.goName, err)
		}
		if within {
			e.frozen = false
		}
		c.fields, c.elems = append(c.fields, f.column), append(c.elems, e)
	}
	return nil
}
