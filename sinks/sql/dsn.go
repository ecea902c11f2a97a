package sql

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// sqliteSettings is what a DSN of SQLite says.
type sqliteSettings struct {
	path        string // as written; relative to the working directory of Open
	create      bool
	synchronous string
	busyTimeout time.Duration
}

const (
	sqliteScheme       = "sqlite"
	defaultBusyTimeout = 30 * time.Second
)

// postgresSchemes are the two that PostgreSQL's own programs know.
var postgresSchemes = []string{"postgres", "postgresql"}

// ParseDSN returns a Config for a DSN, to be completed with tables and schema,
// or an error that matches [framework.ErrConfig] and says what is wrong with it.
// It touches no file and no server.
//
//	sqlite:///absolute/path.db
//	sqlite://relative/path.db?synchronous=normal&busy_timeout=5s
//
// Special characters of the path are percent-encoded. The parameters of SQLite,
// each at most once:
//
//   - synchronous: "full" (default) makes each save survive a loss of power,
//     "normal" only the death of the process;
//   - busy_timeout: how long a save or claim waits for another process's
//     transaction, as a Go duration. Defaults to 30s;
//   - mode: "rwc" (default) creates a missing database, "rw" refuses it.
//
// PostgreSQL has the URLs that its own programs take, with a database:
//
//	postgres://user:password@host:5432/database?sslmode=verify-full&search_path=app
//
// Reserved characters in user and password are percent-encoded. What is left out
// comes from PostgreSQL's environment (PGPASSWORD and others) and files. All
// parameters of a connection and a session are allowed, each at most once. The
// sink sets these where they are not given:
//
//   - idle_in_transaction_session_timeout=10s: when the server ends a save whose
//     client is frozen or gone, so that the next owner need not wait for it longer;
//   - lock_timeout=30s: how long a save or claim waits for another's;
//   - statement_timeout=60s: how long one statement may take, waiting included;
//   - synchronous_commit=on, whatever the server's default;
//   - connect_timeout=10 (seconds).
//
// and has two of its own:
//
//   - writers: how many claims and saves may be at work at once, each on a
//     connection of its own. Defaults to 8; up to 4 more connections read;
//   - start_wait: as Config.StartWait, for example 30s or 2m.
func ParseDSN(dsn string) (Config, error) {
	database, err := parseDSN(dsn)
	if err != nil {
		return Config{}, err
	}
	c := Config{DSN: dsn}
	if s, ok := database.(postgresSettings); ok {
		c.StartWait = s.startWait
	}
	return c, nil
}

func parseDSN(dsn string) (target, error) {
	scheme, rest, ok := strings.Cut(dsn, "://")
	switch {
	case dsn == "":
		return nil, configError("DSN is empty; give sqlite:///absolute/path.db or postgres://user:password@host/database")
	case !ok:
		return nil, configError("DSN has no scheme; write sqlite:///absolute/path.db, sqlite://relative/path.db or postgres://user:password@host/database")
	case scheme == sqliteScheme:
		return parseSQLite(rest)
	case slices.Contains(postgresSchemes, scheme):
		return parsePostgres(dsn)
	default:
		return nil, configError("DSN has the unknown scheme %q; supported: %s, %s", scheme, sqliteScheme, strings.Join(postgresSchemes, ", "))
	}
}

// parseSQLite parses what follows sqlite://. A URL's host and path have no
// meaning here, so that net/url would only get in the way of the path.
func parseSQLite(rest string) (sqliteSettings, error) {
	rawPath, query, _ := strings.Cut(rest, "?")
	path, err := url.PathUnescape(rawPath)
	switch {
	case err != nil:
		return sqliteSettings{}, configError("DSN path %q: %v", rawPath, err)
	case path == "":
		return sqliteSettings{}, configError("DSN names no database file; write sqlite:///absolute/path.db or sqlite://relative/path.db")
	case path == ":memory:":
		return sqliteSettings{}, configError("DSN asks for a database in memory, where nothing would outlive the process; use the memory sink")
	case strings.ContainsAny(rawPath, "#") || strings.ContainsRune(path, 0):
		return sqliteSettings{}, configError("DSN path %q holds a # (write %%23) or a NUL", rawPath)
	case strings.HasSuffix(path, "/"):
		return sqliteSettings{}, configError("DSN path %q is a directory; name the database file", path)
	}
	s := sqliteSettings{path: path, create: true, synchronous: "full", busyTimeout: defaultBusyTimeout}
	return s, s.parseParameters(query)
}

func (s *sqliteSettings) parseParameters(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return configError("DSN parameters %q: %v", query, err)
	}
	for name, given := range values {
		if len(given) > 1 {
			return configError("DSN parameter %s is given %d times", name, len(given))
		}
		if err := s.set(name, given[0]); err != nil {
			return err
		}
	}
	return nil
}

func (s *sqliteSettings) set(name, value string) error {
	switch name {
	case "synchronous":
		s.synchronous = value
		return oneOf(name, value, "full", "normal")
	case "mode":
		s.create = value == "rwc"
		return oneOf(name, value, "rwc", "rw")
	case "busy_timeout":
		d, err := time.ParseDuration(value)
		if err != nil || d < time.Millisecond || d > 24*time.Hour {
			return configError("DSN parameter busy_timeout=%q is not a duration from 1ms to 24h, such as 30s", value)
		}
		s.busyTimeout = d
		return nil
	default:
		return configError("DSN parameter %q is unknown; known are busy_timeout, mode and synchronous", name)
	}
}

func oneOf(name, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return configError("DSN parameter %s=%q: give %s", name, value, strings.Join(allowed, " or "))
}

// String shows the settings in an error; a SQLite DSN holds no secret.
func (s sqliteSettings) String() string { return fmt.Sprintf("sqlite database %s", s.path) }
