package sql

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Codes of PostgreSQL (appendix A of its manual), by class or whole.
var postgresReasons = map[string]reason{
	"21": reasonRefused, // one row changed twice
	"22": reasonRefused, // a value out of range
	"23": reasonRefused, // a constraint
	"42": reasonRefused, // what a column's type or a check makes of a value
	"44": reasonRefused, // a view's check
	"P0": reasonRefused, // raised by a trigger
	"0A": reasonRefused, // not supported

	"54": reasonTooLarge, // an index row, a number of columns

	"08": reasonUnavailable, // the connection
	"25": reasonUnavailable, // a transaction that was ended, for idling
	"40": reasonUnavailable, // serialization, deadlock
	"53": reasonUnavailable, // disk, memory, connections
	"55": reasonUnavailable, // locked
	"57": reasonUnavailable, // cancelled, or shutting down
	"58": reasonUnavailable, // input and output

	"XX": reasonDamaged,

	"42P01": reasonMissing, // a table
	"42703": reasonMissing, // a column

	"28":    reasonForbidden, // the login
	"3D":    reasonForbidden, // the database
	"3F":    reasonForbidden, // the schema
	"25006": reasonForbidden, // read-only
	"42501": reasonForbidden, // a privilege
	"42704": reasonForbidden, // a parameter of the DSN
	"22023": reasonForbidden, // its value
}

func (postgres) reason(err error) reason {
	var e *pgconn.PgError
	switch {
	case errors.As(err, &e):
		if r, ok := postgresReasons[e.Code]; ok {
			return r
		}
		return postgresReasons[e.Code[:min(len(e.Code), 2)]]
	case lostConnection(err):
		return reasonUnavailable
	default:
		return reasonOther
	}
}

// lostConnection tells the errors by which a connection ends, or is not made. A
// context that ended is none of them.
func lostConnection(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, driver.ErrBadConn) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		strings.Contains(fmt.Sprint(err), "conn closed") // pgx has no value for it
}

// transient: the server has rolled back for the sake of others, or the connection
// was lost before the COMMIT.
func (postgres) transient(err error) bool {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		switch e.Code {
		case "40001", "40P01": // also of a COMMIT: then the server says that it was none
			return true
		}
	}
	var ce *commitError
	if errors.As(err, &ce) {
		return false
	}
	if e == nil {
		return lostConnection(err)
	}
	return strings.HasPrefix(e.Code, "08") || strings.HasPrefix(e.Code, "57P") || e.Code == "25P03"
}

// permanent tells the errors of a connection that waiting does not mend.
func permanent(err error) bool {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return postgres{}.reason(err) == reasonForbidden
	}
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	return errors.As(err, &certificate) || errors.As(err, &authority) || strings.Contains(err.Error(), "server refused TLS connection")
}

// postgresRowError names the row that the server has named.
func postgresRowError(t *boundTable, err error) error {
	var e *pgconn.PgError
	if !errors.As(err, &e) || (postgres{}).reason(err) != reasonRefused || e.Detail == "" {
		return err
	}
	return &RowError{Table: t.name, Row: postgresRow(e.Detail), Err: err}
}

// postgresRow takes the row from the server's own words, which are one of
//
//	Key (partition, record_offset)=(0, 17) already exists.
//	Failing row contains (0, 17, null).
func postgresRow(detail string) string {
	const most = 200 // bytes, enough to recognise a row by
	row := detail
	if _, values, ok := strings.Cut(detail, "Failing row contains ("); ok {
		row = strings.TrimSuffix(values, ").")
	} else if columns, values, ok := strings.Cut(strings.TrimPrefix(detail, "Key ("), ")=("); ok {
		values, _, _ = strings.Cut(values, ")")
		row = pair(columns, values)
	}
	if len(row) > most {
		row = strings.ToValidUTF8(row[:most], "") + "…"
	}
	return row
}

// pair writes "a, b" and "1, 2" as "a=1, b=2", if that is what they are.
func pair(columns, values string) string {
	cs, vs := strings.Split(columns, ", "), strings.Split(values, ", ")
	if len(cs) != len(vs) {
		return "(" + columns + ")=(" + values + ")"
	}
	for i := range cs {
		cs[i] += "=" + vs[i]
	}
	return strings.Join(cs, ", ")
}
