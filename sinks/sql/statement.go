package sql

import "strings"

// maxRows is how many rows one statement writes at most. Statements of 16, 8, 4,
// 2 and 1 rows together write any number, so few different ones are prepared.
// More rows a statement gain little: the cost of a statement's start is spread
// thin by then.
const maxRows = 16

// rowsPerStatement returns the largest power of two of rows that a statement may
// write.
func rowsPerStatement(d dialect, parameters int) int {
	n := maxRows
	for n > 1 && n*parameters > d.maxParameters() {
		n /= 2
	}
	return n
}

// statement is one statement of the sink: a fixed one, or one that writes so many
// rows of a table. It can be compared, so the text of the latter is made once.
type statement struct {
	query string // if fixed
	table *layout
	op    op
	rows  int
}

func (s statement) text(d dialect) string {
	if s.table == nil {
		return s.query
	}
	var b strings.Builder
	l := s.table
	if s.op == opDelete {
		l.deleteSQL(&b, d, s.rows)
		return b.String()
	}
	b.WriteString("INSERT INTO " + quote(l.name) + " (" + quoted(l.columns(nil)) + ") VALUES ")
	tuples(&b, d, s.rows, len(l.fields))
	if s.op == opUpsert {
		b.WriteString(" ON CONFLICT (" + quoted(l.columns(l.keys)) + ") DO ")
		l.replaceSQL(&b)
	}
	return b.String()
}

// replaceSQL ends an upsert: every column that is no key takes the new value.
func (l *layout) replaceSQL(b *strings.Builder) {
	if len(l.keys) == len(l.fields) {
		b.WriteString("NOTHING")
		return
	}
	separator := "UPDATE SET "
	for _, f := range l.fields {
		if !f.key {
			b.WriteString(separator + quote(f.column) + " = excluded." + quote(f.column))
			separator = ", "
		}
	}
}

func (l *layout) deleteSQL(b *strings.Builder, d dialect, rows int) {
	b.WriteString("DELETE FROM " + quote(l.name) + " WHERE (" + quoted(l.columns(l.keys)) + ") IN (VALUES ")
	tuples(b, d, rows, len(l.keys))
	b.WriteString(")")
}

// tuples writes (?, ?), (?, ?)…
func tuples(b *strings.Builder, d dialect, rows, columns int) {
	for r := range rows {
		if r > 0 {
			b.WriteString(", ")
		}
		b.WriteByte('(')
		for c := range columns {
			if c > 0 {
				b.WriteString(", ")
			}
			b.WriteString(d.placeholder(r*columns + c + 1))
		}
		b.WriteByte(')')
	}
}

// quote makes an identifier of any name; names with a quote in them are refused
// earlier.
func quote(name string) string { return `"` + name + `"` }

func quoted(names []string) string {
	return `"` + strings.Join(names, `", "`) + `"`
}
