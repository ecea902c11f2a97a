package sql

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/lockstep-stream/lockstep/framework"
)

// readers is how many connections may read at once.
const readers = 4

// answerGrace is what an answer may take longer than the server's own bound.
const answerGrace = 15 * time.Second

func (s postgresSettings) open(ctx context.Context, c Config) (dialect, pools, error) {
	p := pools{writers: s.writers}
	p.write, p.read = stdlib.OpenDB(*s.config.Copy()), stdlib.OpenDB(*s.config.Copy())
	p.write.SetMaxOpenConns(s.writers)
	p.write.SetMaxIdleConns(s.writers)
	p.read.SetMaxOpenConns(readers)
	p.read.SetMaxIdleConns(readers)
	if err := s.greet(ctx, p.read, c); err != nil {
		return nil, pools{}, errors.Join(err, p.write.Close(), p.read.Close())
	}
	return postgres{answer: s.answerBound()}, p, nil
}

// answerBound is a little more than the server gives a statement, which includes
// the wait for locks.
func (s postgresSettings) answerBound() time.Duration {
	bound := parseServerTime(s.config.RuntimeParams["statement_timeout"])
	if bound == 0 { // switched off: as good as for ever
		return 24 * time.Hour
	}
	return bound + answerGrace
}

// parseServerTime reads a time as PostgreSQL writes them, in milliseconds if it
// has no unit; 0 if it cannot, and the server will say so.
func parseServerTime(text string) time.Duration {
	text = strings.ReplaceAll(strings.TrimSpace(text), " ", "")
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.Duration(ms) * time.Millisecond
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 32)
		if err != nil {
			return 0
		}
		return time.Duration(n) * 24 * time.Hour
	}
	d, err := time.ParseDuration(strings.Replace(text, "min", "m", 1))
	if err != nil {
		return 0
	}
	return d
}

// The pauses between attempts to connect, and between log lines about it.
const (
	connectFirstPause = 200 * time.Millisecond
	connectMostPause  = 2 * time.Second
	connectLogEvery   = 5 * time.Second
)

// greet waits until the server lets us in, and looks whether it can be worked
// with.
func (s postgresSettings) greet(ctx context.Context, db *stdsql.DB, c Config) error {
	limit := c.StartWait
	if limit == 0 {
		limit = s.startWait
	}
	if limit == 0 {
		limit = defaultStartWait
	}
	began := time.Now()
	var logged time.Time
	for wait := connectFirstPause; ; wait = min(2*wait, connectMostPause) {
		err := s.look(ctx, db)
		switch {
		case err == nil, errors.Is(err, framework.ErrConfig):
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("connecting: %w (last error: %w)", context.Cause(ctx), err)
		case permanent(err):
			return fmt.Errorf("%w: %w", framework.ErrConfig, err)
		case time.Since(began)+wait > limit:
			return fmt.Errorf("no connection to the server within %s: %w: %w", max(limit, 0), framework.ErrUnavailable, err)
		}
		if time.Since(logged) >= connectLogEvery {
			logged = time.Now()
			c.Logger.LogAttrs(ctx, slog.LevelInfo, "sql: waiting for the server", slog.String("database", s.String()),
				slog.Duration("waited", time.Since(began).Round(time.Second)), slog.Duration("limit", limit), slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

func (s postgresSettings) look(ctx context.Context, db *stdsql.DB) error {
	var encoding string
	if err := db.QueryRowContext(ctx, "SHOW server_encoding").Scan(&encoding); err != nil {
		return err
	}
	if encoding != "UTF8" {
		return fmt.Errorf("%w: the database has the encoding %s, which does not hold all texts; create one with ENCODING 'UTF8'", framework.ErrConfig, encoding)
	}
	return nil
}
