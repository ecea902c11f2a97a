package sql

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"

	"github.com/lockstep-stream/lockstep/framework"
)

// formatVersion is the version of the sink's own tables.
const formatVersion = 1

// Migrate creates the sink's own tables, runs Config.Schema, and then compares
// Config.Tables with the database, all in one transaction.
func (s *Sink) Migrate(ctx context.Context) error {
	err := s.migrate(ctx)
	if err != nil {
		return fmt.Errorf("sql: migrate: %w", err)
	}
	return nil
}

func (s *Sink) migrate(ctx context.Context) error {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	err = s.writers.transaction(ctx, func(w *writer) error {
		if _, err := w.conn.ExecContext(ctx, s.dialect.schema()); err != nil {
			return err
		}
		for i, script := range s.config.Schema {
			if _, err := w.conn.ExecContext(ctx, script); err != nil {
				return fmt.Errorf("Config.Schema[%d]: %w", i, err)
			}
		}
		_, err := s.compare(ctx, w.conn)
		return err
	})
	if err != nil {
		return s.why(ctx, err)
	}
	return s.why(ctx, s.ready(ctx))
}

// ready makes sure, once, that the tables are there and fit.
func (s *Sink) ready(ctx context.Context) error {
	if s.tables.Load() != nil {
		return nil
	}
	s.readyMu.Lock()
	defer s.readyMu.Unlock()
	tables, err := s.compare(ctx, s.pools.read)
	if err != nil {
		return err
	}
	s.tables.Store(&tables)
	return nil
}

// compare checks the sink's own tables and Config.Tables against the database.
func (s *Sink) compare(ctx context.Context, q querier) (map[*layout]*boundTable, error) {
	if err := s.compareFormat(ctx, q); err != nil {
		return nil, err
	}
	tables := map[*layout]*boundTable{}
	for _, t := range s.config.Tables {
		b, err := bindTable(ctx, s.dialect, q, t.shape())
		if err != nil {
			return nil, err
		}
		tables[t.shape()] = b
	}
	return tables, nil
}

func (s *Sink) compareFormat(ctx context.Context, q querier) error {
	var version int
	err := q.QueryRowContext(ctx, "SELECT version FROM lockstep_format").Scan(&version)
	switch {
	case errors.Is(err, stdsql.ErrNoRows):
		return &SchemaError{Table: "lockstep_format", Reason: "it is empty; run Migrate, or `lockstep migrate --sink …`"}
	case s.dialect.reason(err) == reasonMissing:
		return s.whyNoFormat(ctx, q, err)
	case err != nil:
		return err
	case version != formatVersion:
		return fmt.Errorf("%w: the sink's tables have format %d, this program knows %d; use the version of the program that made them", framework.ErrConfig, version, formatVersion)
	}
	return nil
}

// whyNoFormat tells the usual reason for which the format cannot be read.
func (s *Sink) whyNoFormat(ctx context.Context, q querier, err error) error {
	info, describeErr := s.dialect.describe(ctx, q, "lockstep_format")
	if describeErr != nil || info != nil {
		return err
	}
	return &SchemaError{Table: "lockstep_format", Reason: "the sink's own tables do not exist; run Migrate, or `lockstep migrate --sink …`, first"}
}
