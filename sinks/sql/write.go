package sql

import (
	"fmt"
	"reflect"

	"github.com/lockstep-stream/lockstep/framework"
)

// Write is one write to one table, made by the methods of a [Table]. It is
// encoded once, when made, and refers to the bytes of []byte fields. The zero
// Write is refused.
type Write struct {
	table  *layout
	op     op
	size   int
	values []any // one for each field; for a delete, one for each key
	err    error // why it could never be saved
}

// op is what a write does to its row.
type op uint8

const (
	opInsert op = iota
	opUpsert
	opDelete
)

// String names the operation in errors.
func (o op) String() string { return [...]string{"insert", "upsert", "delete"}[o] }

// write encodes the fields of v that op needs.
func (l *layout) write(o op, v reflect.Value) Write {
	w := Write{table: l, op: o, err: l.err}
	if w.err != nil {
		return w
	}
	if o != opInsert && len(l.keys) == 0 {
		w.err = fmt.Errorf("table %q: %w: %s needs a key, but no field has the tag option key", l.name, framework.ErrConfig, o)
		return w
	}
	if o == opDelete {
		w.values = make([]any, 0, len(l.keys))
		for _, k := range l.keys {
			w.add(&l.fields[k], v)
		}
		return w
	}
	w.values = make([]any, 0, len(l.fields))
	for i := range l.fields {
		w.add(&l.fields[i], v)
	}
	return w
}

func (w *Write) add(f *field, row reflect.Value) {
	value, size, err := f.encode(row.FieldByIndex(f.index))
	if err == nil && value == nil && f.key && w.op != opInsert {
		// NULL equals nothing, so that every upsert would add another row.
		err = fmt.Errorf("a key must not be NULL")
	}
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("table %q, column %q: %w: %w", w.table.name, f.column, framework.ErrRefused, err)
	}
	w.values = append(w.values, value)
	w.size += size
}

// Check returns the encoded size of w in bytes, or why no database would take it:
// what [Sink.Check] finds with a default Config, except for what only the
// database's own table tells. So a test without a database refuses what the sink
// refuses; the memory sink asks for it.
func (w Write) Check() (int, error) {
	if err := w.check(defaultMaxWrite); err != nil {
		return 0, fmt.Errorf("sql: %w", err)
	}
	return w.size, nil
}

// check returns what is wrong with w by itself. maxWrite is in bytes.
func (w *Write) check(maxWrite int) error {
	switch {
	case w.err != nil:
		return w.err
	case w.table == nil:
		return fmt.Errorf("%w: the write is empty; make writes with the methods of a Table", framework.ErrRefused)
	case w.size > maxWrite:
		return fmt.Errorf("table %q, row (%s): %w: %d bytes, Config.MaxWriteBytes is %d", w.table.name, w.name(), framework.ErrTooLarge, w.size, maxWrite)
	}
	return nil
}

// String shows w to people, such as in the output of a test: the operation, the
// table and the columns, with long values cut. The form may change.
func (w Write) String() string {
	switch {
	case w.err != nil:
		return fmt.Sprintf("%s that is refused: %v", w.op, w.err)
	case w.table == nil:
		return "empty write"
	}
	var which []int // all
	if w.op == opDelete {
		which = w.table.keys
	}
	return fmt.Sprintf("%s %s(%s)", w.op, w.table.name, rowName(w.table.columns(which), w.values))
}

// name describes the written row in errors.
func (w *Write) name() string {
	l := w.table
	switch {
	case w.op == opDelete:
		return rowName(l.columns(l.keys), w.values)
	case len(l.keys) == 0:
		return rowName(l.columns(nil), w.values)
	}
	values := make([]any, len(l.keys))
	for i, k := range l.keys {
		values[i] = w.values[k]
	}
	return rowName(l.columns(l.keys), values)
}
