package cassandra

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// plan is how the fields of a Go struct become a row, compiled once a table.
type plan struct {
	target *target
	fields []planField // one per column of the target, in order
}

type planField struct {
	index []int
	enc   cellEncoder
}

// cellEncoder appends the cell of a field, see row.go.
type cellEncoder func(dst []byte, v reflect.Value) ([]byte, error)

// compile makes the plan of a table from the tags of struct type t.
func compile(name string, t reflect.Type) (*plan, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("rows are structs with cql tags, not %s", t)
	}
	fields, err := structFields(t)
	if err != nil {
		return nil, err
	}
	// Keys first: the partition key is then a prefix of every row.
	slices.SortStableFunc(fields, func(a, b structField) int { return int(a.role) - int(b.role) })
	p := &plan{target: &target{name: name}}
	for _, f := range fields {
		if err := p.add(f); err != nil {
			return nil, fmt.Errorf("field %s (column %s): %w", f.goName, f.column, err)
		}
	}
	if p.target.partition == 0 {
		return nil, errors.New("no field is tagged as part of the partition key; tag it `cql:\"name,partition\"`")
	}
	return p, nil
}

// add appends a column.
func (p *plan) add(f structField) error {
	if slices.ContainsFunc(p.target.columns, func(c column) bool { return c.name == f.column }) {
		return errors.New("the column has two fields")
	}
	inner, optional := innerType(f.typ)
	typ, err := typeOf(inner, f.cql)
	if err != nil {
		return err
	}
	if err := columnAllowed(typ, f.role); err != nil {
		return err
	}
	enc, err := encoderFor(inner, typ)
	if err != nil {
		return err
	}
	switch f.role {
	case rolePartition:
		p.target.partition++
	case roleClustering:
		p.target.clustering++
	}
	p.target.columns = append(p.target.columns, column{name: f.column, typ: typ, role: f.role})
	p.fields = append(p.fields, planField{index: f.index, enc: cellOf(f, enc, optional)})
	return nil
}

// innerType returns the Go type of a field's value, and whether the field is an
// Optional.
func innerType(t reflect.Type) (reflect.Type, bool) {
	if inner, ok := optionalElem(t); ok {
		return inner, true
	}
	return pointed(t), false
}

// columnAllowed refuses the types that cannot be applied twice, sent, or be a key.
func columnAllowed(t *cqlType, r role) error {
	switch {
	case t.kind == kindList && !t.frozen:
		return errors.New("a list that is not frozen cannot be written: after a crash a save is applied again, and would repeat its elements; use frozen<list<…>> or a set")
	case t.kind == kindTuple: // the driver's batches take a tuple for several values
		return errors.New("a column that is a tuple is not supported by the driver; use a user type, or put the tuple into a collection")
	case r != roleRegular && t.multiCell():
		return fmt.Errorf("a key cannot be %s; freeze it", t)
	case r != roleRegular && t.kind == kindDuration:
		return errors.New("a key cannot be a duration")
	}
	return nil
}

// cellOf chooses how a field says set, unset or clear.
func cellOf(f structField, enc valueEncoder, optional bool) cellEncoder {
	switch {
	case f.role != roleRegular:
		return keyCell(f, enc, optional)
	case optional:
		return func(dst []byte, v reflect.Value) ([]byte, error) { return appendOptional(dst, enc, v) }
	case f.typ.Kind() == reflect.Pointer:
		return func(dst []byte, v reflect.Value) ([]byte, error) {
			if v.IsNil() {
				return appendUnset(dst), nil
			}
			return appendCell(dst, enc, v.Elem())
		}
	default:
		return func(dst []byte, v reflect.Value) ([]byte, error) { return appendCell(dst, enc, v) }
	}
}

// keyCell is a cell that must be set.
func keyCell(f structField, enc valueEncoder, optional bool) cellEncoder {
	pointer := f.typ.Kind() == reflect.Pointer
	return func(dst []byte, v reflect.Value) ([]byte, error) {
		switch {
		case optional:
			state, p := v.Addr().Interface().(optionalCell).cell()
			if state != cellSet {
				return nil, errKeyMissing
			}
			v = reflect.ValueOf(p).Elem()
		case pointer && v.IsNil():
			return nil, errKeyMissing
		case pointer:
			v = v.Elem()
		}
		return appendCell(dst, enc, v)
	}
}

var errKeyMissing = errors.New("a key column must have a value")

func appendOptional(dst []byte, enc valueEncoder, v reflect.Value) ([]byte, error) {
	state, p := v.Addr().Interface().(optionalCell).cell()
	switch state {
	case cellUnset:
		return appendUnset(dst), nil
	case cellClear:
		return appendClear(dst), nil
	default:
		return appendCell(dst, enc, reflect.ValueOf(p).Elem())
	}
}

// encode appends the row of a value, whose fields are given. A delete has the
// cells of the key only.
func (p *plan) encode(dst []byte, fields []reflect.Value, o op) ([]byte, error) {
	dst, err := p.encodeColumns(dst, fields, 0, p.target.keys())
	if err != nil {
		return nil, err
	}
	if err := p.target.checkKey(dst); err != nil {
		return nil, err
	}
	if o == opDelete {
		return dst, nil
	}
	return p.encodeColumns(dst, fields, p.target.keys(), len(p.fields))
}

func (p *plan) encodeColumns(dst []byte, fields []reflect.Value, from, to int) ([]byte, error) {
	var err error
	for i := from; i < to; i++ {
		if dst, err = p.fields[i].enc(dst, fields[i]); err != nil {
			return nil, fmt.Errorf("column %s: %w", p.target.columns[i].name, err)
		}
	}
	return dst, nil
}

// checkKey checks the cells of a primary key against the server's limits: a
// partition key that is not empty as a whole, and neither part too long.
func (t *target) checkKey(row []byte) error {
	size, rest := valueBytes(row, t.partition)
	if t.partition > 1 {
		size += 3 * t.partition // the framing of a composite key
	}
	if size == 0 {
		return fmt.Errorf("column %s: the partition key must not be empty", t.columns[0].name)
	}
	clustering, _ := valueBytes(rest, t.clustering)
	if size > maxKeyBytes || clustering > maxKeyBytes {
		return fmt.Errorf("a partition key of %d and a clustering key of %d bytes: Cassandra allows %d for each", size, clustering, maxKeyBytes)
	}
	return nil
}

// valueBytes returns the length of the values of the first n cells, and what
// follows them.
func valueBytes(row []byte, n int) (int, []byte) {
	size := 0
	for range n {
		_, v, rest, _ := nextCell(row)
		size, row = size+len(v), rest
	}
	return size, row
}
