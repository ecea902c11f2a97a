package sql

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
)

// SchemaError says that a [Table] and the database do not fit together. It
// matches [framework.ErrConfig].
type SchemaError struct {
	Table  string
	Column string // "" if it concerns the table as a whole
	Reason string // what is wrong and what to do
}

// Error returns where the mismatch is, what it is and what to do.
func (e *SchemaError) Error() string {
	if e.Column == "" {
		return fmt.Sprintf("table %q: %s", e.Table, e.Reason)
	}
	return fmt.Sprintf("table %q, column %q: %s", e.Table, e.Column, e.Reason)
}

// Is reports whether target is [framework.ErrConfig].
func (e *SchemaError) Is(target error) bool { return target == framework.ErrConfig }

// RowError says which write of a batch the database refuses. It wraps
// [framework.ErrRefused] and the database's own error.
type RowError struct {
	Table string
	Row   string // the row's key, or all of it in a table without one
	Err   error
}

// Error returns the row and the reason.
func (e *RowError) Error() string {
	return fmt.Sprintf("table %q, row (%s): %v", e.Table, e.Row, e.Err)
}

// Unwrap returns the reason and [framework.ErrRefused].
func (e *RowError) Unwrap() []error { return []error{framework.ErrRefused, e.Err} }

// commitError is the error of a COMMIT: the one place where a transaction may
// have taken effect although its statement failed.
type commitError struct{ err error }

func (e *commitError) Error() string { return fmt.Sprintf("commit: %v", e.err) }
func (e *commitError) Unwrap() error { return e.err }

// configError is an error of the settings, naming the one at fault.
func configError(format string, args ...any) error {
	return fmt.Errorf("sql: %w: %s", framework.ErrConfig, fmt.Sprintf(format, args...))
}

// rowName describes a row in an error by some of its columns.
func rowName(columns []string, values []any) string {
	var b strings.Builder
	for i, c := range columns {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s=%s", c, showValue(values[i]))
	}
	return b.String()
}

func showValue(v any) string {
	const most = 60 // characters, enough to recognise a key by
	s := fmt.Sprint(v)
	switch v := v.(type) {
	case time.Time:
		return v.Format(timeLayout)
	case nil:
		return "NULL"
	case []byte:
		s = fmt.Sprintf("%x", v[:min(len(v), most)])
	}
	if len(s) > most {
		return fmt.Sprintf("%.*s…", most, s)
	}
	return s
}

// reason is what kind of error a database has given.
type reason uint8

const (
	reasonOther       reason = iota
	reasonRefused            // the statement's content: constraint, type
	reasonMissing            // a table or column that is not there, whatever the content
	reasonTooLarge           // a value or row exceeds the database's limit
	reasonUnavailable        // locked, full, broken: later may help
	reasonDamaged            // the database itself is damaged
	reasonForbidden          // read-only, or no permission
)

// typed wraps a database's error in the framework's error of the same meaning.
func typed(d dialect, err error) error {
	if err == nil {
		return nil
	}
	kinds := [...]error{
		reasonRefused:     framework.ErrRefused,
		reasonTooLarge:    framework.ErrTooLarge,
		reasonUnavailable: framework.ErrUnavailable,
		reasonDamaged:     framework.ErrCorrupt,
		reasonMissing:     framework.ErrConfig,
		reasonForbidden:   framework.ErrConfig,
	}
	kind := kinds[d.reason(err)]
	if kind == nil || errors.Is(err, kind) {
		return err
	}
	return fmt.Errorf("%w: %w", kind, err)
}
