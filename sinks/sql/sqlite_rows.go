package sql

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
)

// maxRows is how many rows one statement writes at most. Statements of 16, 8, 4,
// 2 and 1 rows together write any number, so few different ones are prepared.
// More rows a statement gain little: the cost of a statement's start is spread
// thin by then.
const maxRows = 16

// maxParameters is how many parameters a statement of SQLite may have.
const maxParameters = 32766

// rowsPerStatement returns the largest power of two of rows that a statement may
// write.
func rowsPerStatement(parameters int) int {
	n := maxRows
	for n > 1 && n*parameters > maxParameters {
		n /= 2
	}
	return n
}

// write writes rows in statements of a few sizes.
func (sqlite) write(ctx context.Context, w *writer, _ *boundTable, run []*Write) error {
	first := run[0]
	args := make([]any, 0, maxRows*len(first.values))
	for rows := rowsPerStatement(len(first.values)); len(run) > 0; rows /= 2 {
		if len(run) < rows {
			continue
		}
		for len(run) >= rows {
			if err := ctx.Err(); err != nil {
				return err
			}
			args = args[:0]
			for _, write := range run[:rows] {
				args = appendSQLite(args, write.values)
			}
			if _, err := w.run(ctx, statement{table: first.table, op: first.op, rows: rows}, args); err != nil {
				return blame(ctx, w, run[:rows], err)
			}
			run = run[rows:]
		}
	}
	return nil
}

// blame finds the row for which a statement failed, by writing the rows one by
// one: the failed statement has left no trace, and the transaction is going to be
// rolled back in any case.
func blame(ctx context.Context, w *writer, rows []*Write, err error) error {
	if (sqlite{}).reason(err) != reasonRefused {
		return err
	}
	for _, row := range rows {
		if _, rowErr := w.run(ctx, statement{table: row.table, op: row.op, rows: 1}, appendSQLite(nil, row.values)); rowErr != nil {
			return &RowError{Table: row.table.name, Row: row.name(), Err: rowErr}
		}
	}
	return errors.Join(framework.ErrRefused, err)
}

// timeLayout sorts in order of time, and SQLite's own functions understand it.
const timeLayout = "2006-01-02 15:04:05.000000000-07:00"

// appendSQLite adds values as SQLite stores them: it has no booleans and no times.
func appendSQLite(args, values []any) []any {
	for _, v := range values {
		switch x := v.(type) {
		case bool:
			v = int64(0)
			if x {
				v = int64(1)
			}
		case time.Time:
			v = x.Format(timeLayout)
		}
		args = append(args, v)
	}
	return args
}

// text is the statement in SQLite's own words.
func (s statement) text() string {
	if s.table == nil {
		return s.query
	}
	var b strings.Builder
	l := s.table
	if s.op == opDelete {
		b.WriteString("DELETE FROM " + quote(l.name) + " WHERE (" + quoted(l.columns(l.keys)) + ") IN (VALUES ")
		tuples(&b, s.rows, len(l.keys))
		b.WriteString(")")
		return b.String()
	}
	b.WriteString("INSERT INTO " + quote(l.name) + " (" + quoted(l.columns(nil)) + ") VALUES ")
	tuples(&b, s.rows, len(l.fields))
	if s.op == opUpsert {
		l.replaceSQL(&b)
	}
	return b.String()
}

// tuples writes (?, ?), (?, ?)…
func tuples(b *strings.Builder, rows, columns int) {
	tuple := "(?" + strings.Repeat(", ?", columns-1) + ")"
	b.WriteString(tuple + strings.Repeat(", "+tuple, rows-1))
}
