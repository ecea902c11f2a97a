package sql

import "strings"

// statement is one statement of the sink: a fixed one, or one that writes so many
// rows of a table. It can be compared, so it is prepared once.
type statement struct {
	query string // if fixed
	table *layout
	op    op
	rows  int
}

// replaceSQL ends an upsert: every column that is no key takes the new value.
func (l *layout) replaceSQL(b *strings.Builder) {
	b.WriteString(" ON CONFLICT (" + quoted(l.columns(l.keys)) + ") DO ")
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

// quote makes an identifier of any name; names with a quote in them are refused
// earlier.
func quote(name string) string { return `"` + name + `"` }

func quoted(names []string) string {
	return `"` + strings.Join(names, `", "`) + `"`
}
