package sql

import (
	"context"
	stdsql "database/sql"
)

// dialect is all that differs between databases: the rest of the package speaks
// the SQL that they share (INSERT … ON CONFLICT … DO UPDATE … RETURNING).
type dialect interface {
	// open connects, and says how many connections may write at once.
	open(ctx context.Context, s settings) (pools, error)
	// begin is the statement that begins a transaction that will write.
	begin() string
	// placeholder is the n-th parameter of a statement, counted from 1.
	placeholder(n int) string
	// maxParameters is how many parameters a statement may have.
	maxParameters() int
	// schema is the script of the sink's own tables.
	schema() string
	// describe returns what the database knows of a table, nil if there is none.
	describe(ctx context.Context, q querier, table string) (*tableInfo, error)
	// holds says why a column of this declared type would not hold values of the
	// class unchanged, or "".
	holds(declared string, c class) string
	// reason tells what kind of error the database has given.
	reason(err error) reason
}

// pools are the connections to a database.
type pools struct {
	read    *stdsql.DB
	write   *stdsql.DB
	writers int // how many connections may write at once
}

// querier reads: a database, a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*stdsql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *stdsql.Row
}

// tableInfo is what a database knows of a table.
type tableInfo struct {
	kind    string // "table", or what it is instead
	columns map[string]columnInfo
	order   []string   // column names as declared
	unique  [][]string // the sets of columns that are unique, the primary key among them
}

type columnInfo struct {
	declared  string // the type as declared
	notNull   bool
	automatic bool // has a value when none is given: a default, or generated
	generated bool // cannot be written
}

// class is the kind of values a field holds.
type class uint8

const (
	classAny class = iota // chosen at run time, by a driver.Valuer
	classInt              // also booleans
	classFloat
	classText
	classBytes
	classTime // text that sorts in order of time
)

// String names the class in errors.
func (c class) String() string {
	return [...]string{"any value", "integers", "floating-point numbers", "text", "bytes", "times"}[c]
}
