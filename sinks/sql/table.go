package sql

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/lockstep-stream/lockstep/framework"
)

// Table writes rows of type T to one table. Make it with [NewTable], once, and
// name it in [Config].Tables. Its methods may be called concurrently, are pure,
// and never fail: a value that cannot be written gives a Write whose fault is
// reported when the sink checks it, so that the record can be blamed.
//
// The fields of T carry tags: `db:"column"`; `db:"column,key"` for the columns
// that identify a row to Upsert and Delete; `db:"column,unixmilli"` for a time in
// an INTEGER column; `db:"-"` for a field that is not stored. Field types are
// booleans, integers, floats, strings, []byte, time.Time, pointers to these (nil
// is NULL, as is a nil []byte), and types with driver.Valuer. Embedded structs
// count as their fields.
type Table[T any] struct {
	layout layout
}

// layout is a table as the code knows it. Its address is its identity.
type layout struct {
	name   string
	fields []field
	keys   []int // which fields are keys
	err    error // why T cannot be written
}

// AnyTable is a [Table] of any row type.
type AnyTable interface {
	Name() string
	fault() error
	shape() *layout
}

// NewTable describes a table by the db tags of struct T. A fault in T or the
// name is reported by [Open].
func NewTable[T any](name string) *Table[T] {
	t := &Table[T]{layout: layout{name: name}}
	l := &t.layout
	if l.fields, l.err = compile(reflect.TypeFor[T]()); l.err == nil && (name == "" || strings.ContainsAny(name, "\x00\"")) {
		l.err = fmt.Errorf("the name is empty or holds a quote or NUL")
	}
	if l.err != nil {
		l.err = fmt.Errorf("table %q: %w: %w", name, framework.ErrConfig, l.err)
	}
	for i, f := range l.fields {
		if f.key {
			l.keys = append(l.keys, i)
		}
	}
	return t
}

// Name returns the table's name.
func (t *Table[T]) Name() string { return t.layout.name }

func (t *Table[T]) fault() error   { return t.layout.err }
func (t *Table[T]) shape() *layout { return &t.layout }

// Insert returns a write that adds the row v. If its key, or another unique value,
// exists already, the save is refused, naming the row.
func (t *Table[T]) Insert(v T) Write { return t.layout.write(opInsert, reflect.ValueOf(&v).Elem()) }

// Upsert returns a write that adds the row v or replaces the one with its key.
func (t *Table[T]) Upsert(v T) Write { return t.layout.write(opUpsert, reflect.ValueOf(&v).Elem()) }

// Delete returns a write that removes the row with the key of v, if there is one.
// The other fields are ignored.
func (t *Table[T]) Delete(v T) Write { return t.layout.write(opDelete, reflect.ValueOf(&v).Elem()) }

// columns returns the names of some fields, or of all if which is nil.
func (l *layout) columns(which []int) []string {
	if which == nil {
		which = l.all()
	}
	names := make([]string, len(which))
	for i, f := range which {
		names[i] = l.fields[f].column
	}
	return names
}

func (l *layout) all() []int {
	all := make([]int, len(l.fields))
	for i := range all {
		all[i] = i
	}
	return all
}
