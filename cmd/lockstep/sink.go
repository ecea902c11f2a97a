package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/sinks/cassandra"
	"github.com/lockstep-stream/lockstep/sinks/sql"
)

// store is what the commands need of a sink, whatever it writes.
type store interface {
	framework.PositionLister
	Close(ctx context.Context) error
}

// database is a parsed data source name.
type database struct {
	open    func(context.Context) (store, error)
	migrate func(ctx context.Context, schema []string) error
}

// The variables that stand for flags which are the same in every command.
const (
	sinkVariable    = "LOCKSTEP_SINK"
	brokersVariable = "LOCKSTEP_BROKERS"
)

// sinkFlag adds --sink to cmd and returns where its value will be. What the variable
// says is no default of the flag, which --help would show with its password.
func sinkFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("sink", "", "the database, as cassandra://hosts/keyspace, postgres://host/database or sqlite://path (default what "+sinkVariable+" says)")
}

// waitFlag adds --wait to cmd and returns where its value will be.
func waitFlag(cmd *cobra.Command) *time.Duration {
	return cmd.Flags().Duration("wait", 10*time.Second, "how long to wait for a server that is not up, such as 2m; 0 asks once; start_wait in --sink wins")
}

// noArguments refuses what is no flag, and knows a database that lacks its flag.
func noArguments(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if strings.Contains(args[0], "://") {
		return fmt.Errorf("give the database as --sink %s", withoutLogin(args[0]))
	}
	return fmt.Errorf("unexpected argument %q: everything is given by flags, which --help lists", withoutLogin(args[0]))
}

// parseSink chooses the sink by the scheme of a data source name.
func parseSink(dsn string, wait time.Duration, log *slog.Logger) (database, error) {
	dsn = cmp.Or(dsn, os.Getenv(sinkVariable))
	if wait < 0 {
		return database{}, fmt.Errorf("%w: --wait %s: give 0 or more, such as 10s", framework.ErrConfig, wait)
	}
	if wait == 0 {
		wait = -1 // for the sinks 0 is their default, and less asks once
	}
	scheme, _, found := strings.Cut(dsn, "://")
	var db database
	var err error
	switch {
	case dsn == "":
		return database{}, fmt.Errorf("%w: --sink is missing; give the database, such as --sink sqlite://app.db or --sink cassandra://10.0.0.1/app, or set "+sinkVariable, framework.ErrConfig)
	case !found:
		err = fmt.Errorf("%w: no scheme; write cassandra://hosts/keyspace, postgres://host/database or sqlite://path", framework.ErrConfig)
	case scheme == "cassandra":
		db, err = cassandraDatabase(dsn, wait, log)
	case scheme == "postgres", scheme == "postgresql":
		db, err = sqlDatabase(dsn, dsn, wait, log)
	case scheme == "sqlite":
		db, err = sqlDatabase(dsn, withoutCreation(dsn), wait, log)
	default:
		err = fmt.Errorf("%w: unknown scheme %q; known are cassandra, postgres and sqlite", framework.ErrConfig, scheme)
	}
	if err != nil {
		return database{}, fmt.Errorf("--sink %q: %w", withoutLogin(dsn), err)
	}
	return db, nil
}

// withoutLogin hides the name and password in a data source name that is to be
// shown, even in a malformed one.
func withoutLogin(dsn string) string {
	i := strings.LastIndexByte(dsn, '@')
	if i < 0 {
		return dsn
	}
	scheme, _, found := strings.Cut(dsn[:i], "://")
	if !found {
		return "…" + dsn[i:]
	}
	return scheme + "://…" + dsn[i:]
}

func cassandraDatabase(dsn string, wait time.Duration, log *slog.Logger) (database, error) {
	cfg, err := cassandra.ParseDSN(dsn)
	cfg.Logger, cfg.StartWait = log, cmp.Or(cfg.StartWait, wait)
	open := func(ctx context.Context) (store, error) { return cassandra.Open(ctx, cfg) }
	migrate := func(ctx context.Context, schema []string) error {
		cfg.Schema = schema
		return cassandra.Migrate(ctx, cfg)
	}
	return database{open, migrate}, err
}

// sqlDatabase is one of package sql's: look is the name by which it is only looked
// at.
func sqlDatabase(dsn, look string, wait time.Duration, log *slog.Logger) (database, error) {
	parsed, err := sql.ParseDSN(dsn)
	wait = cmp.Or(parsed.StartWait, wait)
	cfg := sql.Config{DSN: dsn, StartWait: wait, Logger: log}
	open := func(ctx context.Context) (store, error) {
		sink, err := sql.Open(ctx, sql.Config{DSN: look, StartWait: wait, Logger: log})
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the database file does not exist; check --sink: %w", err)
		}
		return sink, checkSink(err)
	}
	migrate := func(ctx context.Context, schema []string) error {
		cfg.Schema = schema
		sink, err := sql.Open(ctx, cfg)
		if err != nil {
			return checkSink(err)
		}
		defer sink.Close(ctx)
		return sink.Migrate(ctx)
	}
	return database{open, migrate}, err
}

// checkSink names the flag where the database it names is at fault.
func checkSink(err error) error {
	if errors.Is(err, framework.ErrConfig) {
		return fmt.Errorf("check --sink: %w", err)
	}
	return err
}

// withoutCreation returns a DSN of SQLite with mode=rw, if it was valid before:
// looking at a database must not make one.
func withoutCreation(dsn string) string {
	path, query, _ := strings.Cut(dsn, "?")
	parameters, _ := url.ParseQuery(query) // the DSN as it was given is checked apart
	parameters.Set("mode", "rw")
	return path + "?" + parameters.Encode()
}
