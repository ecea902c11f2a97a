package sql

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-stream/lockstep/framework"
)

// boundTable is a layout that fits a table of the database.
type boundTable struct {
	*layout
	bound  []boundColumn // by field
	unique [][]int       // the fields of each key that the table has
	maxKey int           // the most bytes of a key, 0: any number
	copies bool          // takes the rows of a COPY as those of an INSERT
}

// boundColumn is what a write to the column must keep to.
type boundColumn struct {
	columnInfo
	limits func(v any) error // nil: the class of the field is enough
}

// bindTable compares a layout with the database.
func bindTable(ctx context.Context, d dialect, q querier, l *layout) (*boundTable, error) {
	info, err := d.describe(ctx, q, l.name)
	if err != nil {
		return nil, fmt.Errorf("table %q: %w", l.name, typed(d, err))
	}
	if err := l.compareTable(d, info); err != nil {
		return nil, err
	}
	b := &boundTable{layout: l, bound: make([]boundColumn, len(l.fields)), maxKey: d.maxKeyBytes(), copies: info.copies}
	for i, f := range l.fields {
		column, ok := info.columns[d.fold(f.column)]
		if err := l.compareColumn(d, f, column, ok, info); err != nil {
			return nil, err
		}
		b.bound[i] = boundColumn{columnInfo: column, limits: d.limits(column.declared)}
	}
	for _, set := range info.unique {
		b.unique = append(b.unique, l.fieldsOf(d, set))
	}
	return b, nil
}

// fieldsOf returns the fields of some columns; a column that no field has is left
// out.
func (l *layout) fieldsOf(d dialect, columns []string) []int {
	var fields []int
	for i, f := range l.fields {
		if slices.Contains(columns, d.fold(f.column)) {
			fields = append(fields, i)
		}
	}
	return fields
}

// compareTable checks what concerns the table as a whole.
func (l *layout) compareTable(d dialect, info *tableInfo) error {
	switch {
	case info == nil:
		return &SchemaError{Table: l.name, Reason: "it does not exist; create it, or put its CREATE TABLE IF NOT EXISTS into Config.Schema and run Migrate"}
	case info.kind != "table":
		return &SchemaError{Table: l.name, Reason: fmt.Sprintf("it is a %s, not a table", info.kind)}
	}
	for _, name := range info.order {
		c := info.columns[name]
		known := slices.ContainsFunc(l.fields, func(f field) bool { return d.fold(f.column) == name })
		if !known && c.notNull && !c.automatic {
			return &SchemaError{Table: l.name, Column: name, Reason: "it is NOT NULL without a default, and no field has it; add a field or a default"}
		}
	}
	if len(l.keys) == 0 {
		return nil
	}
	keys := l.columns(l.keys)
	for i, k := range keys {
		keys[i] = d.fold(k)
	}
	slices.Sort(keys)
	for _, set := range info.unique {
		if slices.Equal(slices.Sorted(slices.Values(set)), keys) {
			return nil
		}
	}
	return &SchemaError{Table: l.name, Reason: fmt.Sprintf("the key fields (%s) are not its primary key or a unique index; rows could not be found by them", strings.Join(keys, ", "))}
}

// compareColumn checks one field's column.
func (l *layout) compareColumn(d dialect, f field, c columnInfo, exists bool, info *tableInfo) error {
	switch {
	case !exists:
		return &SchemaError{Table: l.name, Column: f.column, Reason: fmt.Sprintf("it does not exist; the table has %s", strings.Join(info.order, ", "))}
	case c.generated:
		return &SchemaError{Table: l.name, Column: f.column, Reason: "it is generated and cannot be written"}
	case c.loose && f.key:
		return &SchemaError{Table: l.name, Column: f.column, Reason: "its collation takes texts that differ for equal, so that it is no key; give it another"}
	}
	if why := d.holds(c.declared, f.class); why != "" {
		return &SchemaError{Table: l.name, Column: f.column, Reason: why}
	}
	return nil
}

// check refuses what the table would refuse, as far as the write alone shows it.
func (t *boundTable) check(w *Write) error {
	if w.op == opDelete {
		return t.checkDelete(w)
	}
	for i := range t.bound {
		if err := t.checkValue(i, w.values[i]); err != nil {
			return err
		}
	}
	for _, set := range t.unique {
		if err := t.checkKey(set, w.values); err != nil {
			return err
		}
	}
	return nil
}

// checkDelete has only the values of the key to look at.
func (t *boundTable) checkDelete(w *Write) error {
	for i, k := range t.keys {
		if err := t.checkValue(k, w.values[i]); err != nil {
			return err
		}
	}
	return nil
}

func (t *boundTable) checkValue(i int, v any) error {
	c, why := &t.bound[i], error(nil)
	switch {
	case v == nil && c.notNull:
		why = fmt.Errorf("the column is NOT NULL")
	case v != nil && c.limits != nil:
		why = c.limits(v)
	}
	if why != nil {
		return fmt.Errorf("table %q, column %q: %w: %w", t.name, t.fields[i].column, framework.ErrRefused, why)
	}
	return nil
}

func (t *boundTable) checkKey(set []int, values []any) error {
	if t.maxKey == 0 {
		return nil
	}
	size := 0
	for _, i := range set {
		size += valueSize(values[i])
	}
	if size > t.maxKey {
		return fmt.Errorf("table %q, key (%s): %w: %d bytes, an index holds %d", t.name, strings.Join(t.columns(set), ", "), framework.ErrRefused, size, t.maxKey)
	}
	return nil
}

// valueSize is about how many bytes a value takes in an index.
func valueSize(v any) int {
	switch v := v.(type) {
	case string:
		return len(v) + 8
	case []byte:
		return len(v) + 8
	default:
		return 8
	}
}
