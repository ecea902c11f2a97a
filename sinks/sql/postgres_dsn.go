package sql

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// postgresSettings is what a DSN of PostgreSQL says.
type postgresSettings struct {
	config    *pgx.ConnConfig
	startWait time.Duration // 0: not given
	writers   int
}

const (
	defaultWriters        = 8
	defaultConnectTimeout = 10 * time.Second
)

// postgresDefaults are the parameters of each session that a DSN does not give.
// An owner that is frozen within a transaction is ended by the first, sooner than
// the next owner ceases to wait for its row by the second; within a COPY, where no
// timeout of the server's holds, by that next owner.
var postgresDefaults = map[string]string{
	"idle_in_transaction_session_timeout": "10s",
	"lock_timeout":                        "30s",
	"statement_timeout":                   "60s",
	"synchronous_commit":                  "on",
	"client_encoding":                     "UTF8",
	"application_name":                    "lockstep",
}

// parsePostgres never shows what it was given: a password that is not encoded may
// be anywhere.
func parsePostgres(dsn string) (postgresSettings, error) {
	s := postgresSettings{writers: defaultWriters}
	u, err := url.Parse(dsn)
	if err != nil || u.Opaque != "" || u.Fragment != "" {
		return s, configError("DSN is no URL of the form postgres://user:password@host:5432/database; reserved characters in user and password are percent-encoded")
	}
	if strings.Trim(u.Path, "/") == "" {
		return s, configError("DSN names no database; write it after the host, as in postgres://host/database")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return s, configError("DSN parameters %q: %v", u.RawQuery, err)
	}
	for name, given := range query {
		if len(given) > 1 {
			return s, configError("DSN parameter %s is given %d times", name, len(given))
		}
	}
	if err := s.takeOwn(query); err != nil {
		return s, err
	}
	u.RawQuery = query.Encode()
	return s, s.parseRest(u.String())
}

// takeOwn takes the parameters that are not PostgreSQL's.
func (s *postgresSettings) takeOwn(query url.Values) error {
	if value := query.Get("start_wait"); query.Has("start_wait") {
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return configError("DSN parameter start_wait=%q is not a positive duration, such as 30s or 2m", value)
		}
		s.startWait = d
	}
	if value := query.Get("writers"); query.Has("writers") {
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > 1000 {
			return configError("DSN parameter writers=%q is not a number from 1 to 1000", value)
		}
		s.writers = n
	}
	query.Del("start_wait")
	query.Del("writers")
	return nil
}

// parseRest leaves the rest to pgx, whose errors hide the password.
func (s *postgresSettings) parseRest(dsn string) error {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		var pe *pgconn.ParseConfigError
		if !errors.As(err, &pe) {
			return configError("DSN is not understood")
		}
		return configError("DSN: %v", err)
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = defaultConnectTimeout
	}
	for name, value := range postgresDefaults {
		if _, given := config.RuntimeParams[name]; !given {
			config.RuntimeParams[name] = value
		}
	}
	s.config = config
	return nil
}

// String shows the database in errors.
func (s postgresSettings) String() string {
	host := s.config.Host
	if !strings.HasPrefix(host, "/") {
		host = net.JoinHostPort(host, strconv.Itoa(int(s.config.Port)))
	}
	return "postgres database " + s.config.Database + " at " + host
}
