package sql

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// Config says which database to use and what the sink may write there. Only DSN
// is required.
type Config struct {
	// DSN names the database; see [ParseDSN].
	DSN string
	// Tables are all tables that the pipelines write to. A write to another is
	// refused.
	Tables []AnyTable
	// Schema are the statements of the program's own tables, or whole scripts of
	// them, run by Migrate in order. They must be idempotent (IF NOT EXISTS).
	Schema []string
	// Owner is the name under which claims are listed. Defaults to host and
	// process ID.
	Owner string
	// MaxWriteBytes bounds the encoded size of a single write. Defaults to
	// 16 MiB.
	MaxWriteBytes int
	// StartWait bounds how long Open waits for a PostgreSQL server that is not up
	// yet. Negative means not at all. Defaults to what DSN says, and else to 60 s.
	StartWait time.Duration
	// Logger hears what Open waits for. Defaults to slog.Default.
	Logger *slog.Logger
}

const (
	defaultMaxWrite  = 16 << 20
	defaultStartWait = time.Minute
)

// withDefaults returns a copy with defaults filled in, or an error that names the
// field.
func (c Config) withDefaults() (Config, error) {
	if c.MaxWriteBytes == 0 {
		c.MaxWriteBytes = defaultMaxWrite
	}
	if c.MaxWriteBytes < 0 {
		return c, configError("MaxWriteBytes is %d; give a number of bytes", c.MaxWriteBytes)
	}
	if c.Owner == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown-host"
		}
		c.Owner = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	names := map[string]bool{}
	for _, t := range c.Tables {
		if err := t.fault(); err != nil {
			return c, fmt.Errorf("sql: %w", err)
		}
		if names[t.Name()] {
			return c, configError("Tables holds table %q twice", t.Name())
		}
		names[t.Name()] = true
	}
	return c, nil
}

// Open opens the database; a server that is not up is waited for, see Config. A
// refused login, or a database that does not exist, is framework.ErrConfig at once,
// a server that cannot be reached framework.ErrUnavailable in the end. It does not look at tables yet: that is done by
// Migrate, or else before anything is claimed or saved.
func Open(ctx context.Context, c Config) (*Sink, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	database, err := parseDSN(c.DSN)
	if err != nil {
		return nil, err
	}
	d, pools, err := database.open(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("sql: %s: %w", database, err)
	}
	return newSink(c, d, pools), nil
}
