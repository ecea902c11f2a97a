package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

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

// sinkFlag adds --sink to cmd and returns where its value will be.
func sinkFlag(cmd *cobra.Command) *string {
	dsn := cmd.Flags().String("sink", "", "the database, as cassandra://hosts/keyspace or sqlite://path (required)")
	if err := cmd.MarkFlagRequired("sink"); err != nil {
		panic(err) // the flag was added above
	}
	return dsn
}

// parseSink chooses the sink by the scheme of a data source name.
func parseSink(dsn string, log *slog.Logger) (database, error) {
	scheme, _, found := strings.Cut(dsn, "://")
	var db database
	var err error
	switch {
	case !found:
		err = fmt.Errorf("%w: no scheme; write cassandra://hosts/keyspace or sqlite://path", framework.ErrConfig)
	case scheme == "cassandra":
		db, err = cassandraDatabase(dsn, log)
	case scheme == "sqlite":
		db, err = sqliteDatabase(dsn)
	default:
		err = fmt.Errorf("%w: unknown scheme %q; known are cassandra and sqlite", framework.ErrConfig, scheme)
	}
	if err != nil {
		return database{}, fmt.Errorf("--sink: %w", err)
	}
	return db, nil
}

func cassandraDatabase(dsn string, log *slog.Logger) (database, error) {
	cfg, err := cassandra.ParseDSN(dsn)
	cfg.Logger = log
	open := func(ctx context.Context) (store, error) { return cassandra.Open(ctx, cfg) }
	migrate := func(ctx context.Context, schema []string) error {
		cfg.Schema = schema
		return cassandra.Migrate(ctx, cfg)
	}
	return database{open, migrate}, err
}

func sqliteDatabase(dsn string) (database, error) {
	_, err := sql.ParseDSN(dsn)
	cfg := sql.Config{DSN: dsn}
	open := func(ctx context.Context) (store, error) { return sql.Open(ctx, cfg) }
	migrate := func(ctx context.Context, schema []string) error {
		cfg.Schema = schema
		sink, err := sql.Open(ctx, cfg)
		if err != nil {
			return err
		}
		defer sink.Close(ctx)
		return sink.Migrate(ctx)
	}
	return database{open, migrate}, err
}
