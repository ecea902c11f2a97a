package sql

import (
	"context"
	stdsql "database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

//go:embed schema/sqlite.sql
var sqliteSchema string

// sqlite is the dialect of SQLite, through a driver in pure Go.
type sqlite struct{}

func (sqlite) schema() string                { return sqliteSchema }
func (sqlite) placeholder(int) string        { return "?" }
func (sqlite) fold(name string) string       { return strings.ToLower(name) }
func (sqlite) clean(text string) string      { return text }
func (sqlite) maxKeyBytes() int              { return 0 }
func (sqlite) limits(string) func(any) error { return nil }
func (sqlite) stateTable() *boundTable       { return sqliteState }
func (sqlite) stateKey(key []byte) []any     { return []any{key} }

// evict: the lock of a frozen process is known to the operating system alone.
func (sqlite) evict(context.Context, querier, string, offsetstore.TopicPartition, error) bool {
	return false
}

// transient: SQLite waits for locks by itself.
func (sqlite) transient(error) bool { return false }

// forUpdate: a transaction that writes has the database to itself.
func (sqlite) forUpdate() string { return "" }

// bounded hands the driver no context: statements are short, and it starts a
// goroutine for each that could be interrupted. Callers look at their context
// between statements.
func (sqlite) bounded(context.Context) (context.Context, context.CancelFunc) {
	return context.Background(), func() {}
}

var sqliteState = ownTable("lockstep_state", 4, "lane_id", "operator", "win", "key", "value")

// begin takes the write lock at once. A transaction that began by reading could
// find later that another process has written in between, which no waiting mends.
func (sqlite) begin() string { return "BEGIN IMMEDIATE" }

// open makes one writing connection, since SQLite has one writer at a time, and
// some reading ones, which in write-ahead-log mode neither wait for it nor hold
// it up.
func (s sqliteSettings) open(ctx context.Context, _ Config) (dialect, pools, error) {
	path, err := filepath.Abs(s.path)
	if err != nil {
		return nil, pools{}, fmt.Errorf("%w: %w", framework.ErrConfig, err)
	}
	if err := checkPath(path, s.create); err != nil {
		return nil, pools{}, err
	}
	p := pools{writers: 1}
	if p.write, err = stdsql.Open("sqlite", sqliteURI(path, s, false)); err != nil {
		return nil, pools{}, err
	}
	if p.read, err = stdsql.Open("sqlite", sqliteURI(path, s, true)); err != nil {
		return nil, pools{}, err
	}
	p.write.SetMaxOpenConns(1)
	p.read.SetMaxOpenConns(max(4, runtime.NumCPU()))
	p.read.SetMaxIdleConns(4)
	if err := useWriteAheadLog(ctx, p.write, s.busyTimeout); err != nil {
		return nil, pools{}, errors.Join(whyNotOpened(path, err), p.write.Close(), p.read.Close())
	}
	return sqlite{}, p, nil
}

// whyNotOpened tells a file that is something else from a database that is damaged.
func whyNotOpened(path string, err error) error {
	var e *driver.Error
	if errors.As(err, &e) && e.Code()&0xff == codes.SQLITE_NOTADB {
		return fmt.Errorf("%w: %s is no SQLite database: %w", framework.ErrConfig, path, err)
	}
	return typed(sqlite{}, err)
}

// checkPath says what SQLite would only call "unable to open database file".
func checkPath(path string, create bool) error {
	switch info, err := os.Stat(path); {
	case err == nil && info.IsDir():
		return fmt.Errorf("%w: %s is a directory", framework.ErrConfig, path)
	case errors.Is(err, os.ErrNotExist) && !create:
		return fmt.Errorf("%w: mode=rw creates no database: %w", framework.ErrConfig, err)
	case errors.Is(err, os.ErrNotExist):
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			return fmt.Errorf("%w: the directory of %s: %w", framework.ErrConfig, path, err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", framework.ErrConfig, err)
	}
	return nil
}

func sqliteURI(path string, s sqliteSettings, readOnly bool) string {
	q := url.Values{}
	q.Set("mode", "rwc")
	if !s.create || readOnly {
		q.Set("mode", "rw")
	}
	q.Set("_busy_timeout", fmt.Sprint(s.busyTimeout.Milliseconds()))
	q.Set("_synchronous", s.synchronous)
	q.Set("_dqs", "false") // else a misspelt column is taken for a string
	q.Set("_pragma", "cache_size(-32768)")
	if readOnly {
		q.Set("_query_only", "true")
		q.Set("_pragma", "cache_size(-8192)")
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}

// useWriteAheadLog switches the database over, once in its life. Two processes
// that do it at the same time meet a lock for which SQLite does not wait by
// itself.
func useWriteAheadLog(ctx context.Context, db *stdsql.DB, limit time.Duration) error {
	for end := time.Now().Add(limit); ; {
		var mode string
		err := db.QueryRowContext(ctx, "PRAGMA journal_mode=WAL").Scan(&mode)
		if err == nil && mode != "wal" {
			return fmt.Errorf("%w: the database stays in journal mode %q; write-ahead logging needs a local disk", framework.ErrConfig, mode)
		}
		if err == nil || (sqlite{}).reason(err) != reasonUnavailable || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// describe reads the table from SQLite's catalogue. Names are compared without
// regard to case, as SQLite does, and returned in lower case.
func (sqlite) describe(ctx context.Context, q querier, table string) (*tableInfo, error) {
	info := &tableInfo{columns: map[string]columnInfo{}}
	err := q.QueryRowContext(ctx, `SELECT type FROM pragma_table_list(?) WHERE schema = 'main'`, table).Scan(&info.kind)
	if errors.Is(err, stdsql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	primary, err := info.readSQLiteColumns(ctx, q, table)
	if err != nil {
		return nil, err
	}
	if len(primary) > 0 {
		info.unique = append(info.unique, primary)
	}
	return info, info.readSQLiteIndexes(ctx, q, table)
}

// readSQLiteColumns fills in the columns and returns those of the primary key.
func (t *tableInfo) readSQLiteColumns(ctx context.Context, q querier, table string) (primary []string, err error) {
	rows, err := q.QueryContext(ctx, `SELECT name, type, "notnull", dflt_value IS NOT NULL, pk, hidden FROM pragma_table_xinfo(?)`, table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var c columnInfo
		var pk, hidden int
		if err := rows.Scan(&name, &c.declared, &c.notNull, &c.automatic, &pk, &hidden); err != nil {
			return nil, err
		}
		name = strings.ToLower(name)
		c.generated = hidden != 0
		c.automatic = c.automatic || c.generated
		if pk > 0 {
			primary = append(primary, name)
		}
		t.columns[name] = c
		t.order = append(t.order, name)
	}
	if len(primary) == 1 && strings.EqualFold(t.columns[primary[0]].declared, "INTEGER") {
		c := t.columns[primary[0]] // an alias of the row ID, which SQLite assigns
		c.automatic = true
		t.columns[primary[0]] = c
	}
	return primary, rows.Err()
}

// readSQLiteIndexes adds the unique indexes that cover whole columns of all rows.
func (t *tableInfo) readSQLiteIndexes(ctx context.Context, q querier, table string) error {
	rows, err := q.QueryContext(ctx, `
		SELECT l.name, lower(coalesce(c.name, '')) FROM pragma_index_list(?) l, pragma_index_info(l.name) c
		WHERE l."unique" = 1 AND l.partial = 0 ORDER BY l.name, c.seqno`, table)
	if err != nil {
		return err
	}
	defer rows.Close()
	sets := map[string][]string{}
	for rows.Next() {
		var index, column string
		if err := rows.Scan(&index, &column); err != nil {
			return err
		}
		sets[index] = append(sets[index], column) // "" is an expression, equal to no column
	}
	for _, set := range sets {
		t.unique = append(t.unique, set)
	}
	return rows.Err()
}

// holds follows SQLite's rules of affinity: a column converts what it is given
// if it can, which turns text into numbers and large integers into inexact
// floats.
func (sqlite) holds(declared string, c class) string {
	a := affinity(declared)
	allowed := map[class][]string{
		classBool:  {"INTEGER", "NUMERIC", "BLOB"},
		classInt:   {"INTEGER", "NUMERIC", "BLOB"},
		classFloat: {"REAL", "NUMERIC", "BLOB"},
		classText:  {"TEXT", "BLOB"},
		classBytes: {"BLOB"},
		classTime:  {"TEXT", "NUMERIC", "BLOB"},
	}[c]
	if c == classAny || slices.Contains(allowed, a) {
		return ""
	}
	return fmt.Sprintf("it is declared %s, which has %s affinity and would not keep %s as they are; declare it %s", orNothing(declared), a, c, allowed[0])
}

func orNothing(declared string) string {
	if declared == "" {
		return "without a type"
	}
	return declared
}

// affinity applies the rules of https://www.sqlite.org/datatype3.html, section
// 3.1, in their order.
func affinity(declared string) string {
	d := strings.ToUpper(declared)
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(d, p) })
	}
	switch {
	case has("INT"):
		return "INTEGER"
	case has("CHAR", "CLOB", "TEXT"):
		return "TEXT"
	case d == "" || has("BLOB") || d == "ANY":
		return "BLOB"
	case has("REAL", "FLOA", "DOUB"):
		return "REAL"
	default:
		return "NUMERIC"
	}
}

// missing is how SQLite says that a table or column is not there: it has one code
// for all errors of a statement.
var missing = regexp.MustCompile(`no such (table|column)|has no column named`)

// reason sorts SQLite's result codes.
func (sqlite) reason(err error) reason {
	var e *driver.Error
	if !errors.As(err, &e) {
		return reasonOther
	}
	switch e.Code() & 0xff { // the rest of the code is detail
	case codes.SQLITE_ERROR:
		if missing.MatchString(e.Error()) {
			return reasonMissing
		}
		return reasonRefused
	case codes.SQLITE_CONSTRAINT, codes.SQLITE_MISMATCH, codes.SQLITE_RANGE:
		return reasonRefused
	case codes.SQLITE_TOOBIG:
		return reasonTooLarge
	case codes.SQLITE_BUSY, codes.SQLITE_LOCKED, codes.SQLITE_PROTOCOL, codes.SQLITE_FULL, codes.SQLITE_IOERR,
		codes.SQLITE_NOMEM, codes.SQLITE_CANTOPEN, codes.SQLITE_INTERRUPT, codes.SQLITE_SCHEMA:
		return reasonUnavailable
	case codes.SQLITE_CORRUPT, codes.SQLITE_NOTADB:
		return reasonDamaged
	case codes.SQLITE_READONLY, codes.SQLITE_PERM, codes.SQLITE_AUTH:
		return reasonForbidden
	default:
		return reasonOther
	}
}
