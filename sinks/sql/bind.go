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
	notNull []bool // by field
}

// bindTable compares a layout with the database.
func bindTable(ctx context.Context, d dialect, q querier, l *layout) (*boundTable, error) {
	info, err := d.describe(ctx, q, l.name)
	if err != nil {
		return nil, fmt.Errorf("table %q: %w", l.name, typed(d, err))
	}
	if err := l.compareTable(info); err != nil {
		return nil, err
	}
	b := &boundTable{layout: l, notNull: make([]bool, len(l.fields))}
	for i, f := range l.fields {
		column, ok := info.columns[strings.ToLower(f.column)]
		if err := l.compareColumn(d, f, column, ok, info); err != nil {
			return nil, err
		}
		b.notNull[i] = column.notNull
	}
	return b, nil
}

// compareTable checks what concerns the table as a whole.
func (l *layout) compareTable(info *tableInfo) error {
	switch {
	case info == nil:
		return &SchemaError{Table: l.name, Reason: "it does not exist; create it, or put its CREATE TABLE IF NOT EXISTS into Config.Schema and run Migrate"}
	case info.kind != "table":
		return &SchemaError{Table: l.name, Reason: fmt.Sprintf("it is a %s, not a table", info.kind)}
	}
	for _, name := range info.order {
		c := info.columns[name]
		known := slices.ContainsFunc(l.fields, func(f field) bool { return strings.EqualFold(f.column, name) })
		if !known && c.notNull && !c.automatic {
			return &SchemaError{Table: l.name, Column: name, Reason: "it is NOT NULL without a default, and no field has it; add a field or a default"}
		}
	}
	if len(l.keys) == 0 {
		return nil
	}
	keys := l.columns(l.keys)
	for i, k := range keys {
		keys[i] = strings.ToLower(k)
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
	}
	if why := d.holds(c.declared, f.class); why != "" {
		return &SchemaError{Table: l.name, Column: f.column, Reason: why}
	}
	return nil
}

// check refuses what the table would refuse, as far as the write alone shows it.
func (b *boundTable) check(w *Write) error {
	if w.op == opDelete {
		return nil // keys are checked when the write is made
	}
	for i, notNull := range b.notNull {
		if notNull && w.values[i] == nil {
			return fmt.Errorf("table %q, column %q: %w: the column is NOT NULL", b.name, b.fields[i].column, framework.ErrRefused)
		}
	}
	return nil
}
