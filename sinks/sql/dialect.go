package sql

import (
	"context"
	stdsql "database/sql"
	"strings"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// dialect is all that differs between databases: the rest of the package speaks
// the SQL that they share (INSERT … ON CONFLICT … DO UPDATE … RETURNING).
type dialect interface {
	// begin is the statement that begins a transaction that will write.
	begin() string
	// placeholder is the n-th parameter of a statement, counted from 1.
	placeholder(n int) string
	// forUpdate ends a SELECT that must not see a row whose last change is not
	// decided yet.
	forUpdate() string
	// bounded returns a context for one statement, given that of the call.
	bounded(ctx context.Context) (context.Context, context.CancelFunc)

	// schema is the script of the sink's own tables, stateTable one of these, and
	// stateKey what the columns of a key hold: first the one it is found by.
	schema() string
	stateTable() *boundTable
	stateKey(key []byte) []any
	// clean makes a text that a column holds of any other.
	clean(text string) string

	// describe returns what the database knows of a table, nil if there is none.
	describe(ctx context.Context, q querier, table string) (*tableInfo, error)
	// fold returns a name as the database compares it with others.
	fold(name string) string
	// holds says why a column of this declared type would not hold values of the
	// class unchanged, or "".
	holds(declared string, c class) string
	// limits says why a column of this declared type would not hold a value that
	// its class allows; nil if it holds all.
	limits(declared string) func(v any) error
	// maxKeyBytes is how long the values of a key may be together; 0: any length.
	maxKeyBytes() int

	// write writes rows of one table by the same operation, as one statement or
	// several.
	write(ctx context.Context, w *writer, t *boundTable, run []*Write) error
	// evict ends the session of a frozen owner that holds tp's row and that the
	// database would never end by itself, if err says that a claim has waited for
	// it in vain. It reports whether it has ended one.
	evict(ctx context.Context, q querier, pipeline string, tp offsetstore.TopicPartition, err error) bool
	// reason tells what kind of error the database has given.
	reason(err error) reason
	// transient tells of an error of a transaction that was not committed whether
	// the same transaction may succeed a moment later.
	transient(err error) bool
}

// target is a database that a DSN names.
type target interface {
	// open connects, and says how many connections may write at once.
	open(ctx context.Context, c Config) (dialect, pools, error)
	// String shows the database in errors, without a password.
	String() string
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

// inDialect writes the parameters of a query, given as ?, as the database wants
// them.
func inDialect(d dialect, query string) string {
	if d.placeholder(1) == "?" {
		return query
	}
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, found := strings.Cut(query, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString(d.placeholder(n))
		query = after
	}
}

// tableInfo is what a database knows of a table.
type tableInfo struct {
	kind    string // "table", or what it is instead
	columns map[string]columnInfo
	order   []string   // column names as declared
	unique  [][]string // the sets of columns that are unique, the primary key among them
	copies  bool       // takes the rows of a COPY as those of an INSERT
}

type columnInfo struct {
	declared  string // the type as declared
	notNull   bool
	automatic bool // has a value when none is given: a default, or generated
	generated bool // cannot be written
	loose     bool // takes texts that differ for equal
}

// class is the kind of values a field holds.
type class uint8

const (
	classAny class = iota // chosen at run time, by a driver.Valuer
	classBool
	classInt
	classFloat
	classText
	classBytes
	classTime
)

// String names the class in errors.
func (c class) String() string {
	return [...]string{"any value", "booleans", "integers", "floating-point numbers", "text", "bytes", "times"}[c]
}
