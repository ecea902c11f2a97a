package sql

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// One statement writes this much at most, so that neither side holds more in
// memory than it has to.
const (
	postgresRows  = 10_000
	postgresBytes = 8 << 20
)

// write sends the rows column by column, as arrays: one statement, prepared once,
// writes any number of rows, in one round trip. Many new rows go by COPY.
func (postgres) write(ctx context.Context, w *writer, t *boundTable, run []*Write) error {
	op := run[0].op
	if op != opInsert {
		run = t.latest(run)
	}
	s := statement{query: t.arraysSQL(op)}
	for len(run) > 0 {
		n := chunk(run)
		if err := w.writeRows(ctx, t, s, run[:n]); err != nil {
			return postgresRowError(t, err)
		}
		run = run[n:]
	}
	return nil
}

func (w *writer) writeRows(ctx context.Context, t *boundTable, s statement, run []*Write) error {
	if t.copyable(run[0].op, len(run)) {
		return w.copyRows(ctx, t, run)
	}
	_, err := w.run(ctx, s, t.arrays(run))
	return err
}

// latest keeps the last write of each row: one statement cannot change a row
// twice, and what came before the last is not seen by anybody. It sorts them by
// key, so that lanes which write the same rows lock them in one order and do not
// end as deadlocks.
func (t *boundTable) latest(run []*Write) []*Write {
	if len(run) == 1 {
		return run
	}
	last := make(map[string]*Write, len(run))
	var key []byte
	for _, w := range run {
		key = t.appendKey(key[:0], w)
		last[string(key)] = w
	}
	kept := make([]*Write, 0, len(last))
	for _, k := range slices.Sorted(maps.Keys(last)) {
		kept = append(kept, last[k])
	}
	return kept
}

// appendKey adds the key of a write: equal for rows that the database takes for
// one.
func (t *boundTable) appendKey(b []byte, w *Write) []byte {
	for i, k := range t.keys {
		if w.op != opDelete {
			i = k
		}
		b = appendValue(b, w.values[i])
	}
	return b
}

// appendValue has the length of a value before it, so that no two keys look alike.
func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return append(binary.AppendUvarint(b, uint64(len(v))), v...)
	case []byte:
		return append(binary.AppendUvarint(b, uint64(len(v))), v...)
	case time.Time:
		return binary.AppendVarint(b, v.UnixMicro()) // as the column holds it
	case float64:
		return binary.AppendUvarint(b, math.Float64bits(v+0)) // -0 equals 0
	default:
		return fmt.Appendf(b, "%v,", v)
	}
}

// chunk returns how many of the writes the next statement takes.
func chunk(run []*Write) int {
	size := 0
	for n, w := range run {
		for _, v := range w.values {
			size += valueSize(v)
		}
		if n+1 == postgresRows || size >= postgresBytes {
			return n + 1
		}
	}
	return len(run)
}

// arrays returns one array for each column.
func (t *boundTable) arrays(run []*Write) []any {
	columns := len(run[0].values)
	cells := make([]any, len(run)*columns)
	args := make([]any, columns)
	for c := range columns {
		array := cells[c*len(run) : (c+1)*len(run)]
		for r, w := range run {
			array[r] = w.values[c]
		}
		args[c] = array
	}
	return args
}

// arraysSQL is the statement that takes a table's columns as arrays.
func (t *boundTable) arraysSQL(o op) string {
	var b strings.Builder
	if o == opDelete {
		b.WriteString("DELETE FROM " + quoteTable(t.name) + " AS t USING " + t.unnest(t.keys) + " AS k (" + quoted(t.columns(t.keys)) + ") WHERE ")
		for i, c := range t.columns(t.keys) {
			if i > 0 {
				b.WriteString(" AND ")
			}
			b.WriteString("t." + quote(c) + " = k." + quote(c))
		}
		return b.String()
	}
	b.WriteString("INSERT INTO " + quoteTable(t.name) + " (" + quoted(t.columns(nil)) + ") SELECT * FROM " + t.unnest(t.all()))
	if o == opUpsert {
		t.replaceSQL(&b)
	}
	return b.String()
}

// unnest makes rows of arrays, one parameter for each of the fields.
func (t *boundTable) unnest(fields []int) string {
	params := make([]string, len(fields))
	for i, f := range fields {
		name, _ := typeName(t.bound[f].declared)
		params[i] = fmt.Sprintf("$%d::%s[]", i+1, name)
	}
	return "unnest(" + strings.Join(params, ", ") + ")"
}
