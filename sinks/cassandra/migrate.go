package cassandra

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
)

// The limits of one statement of a migration: a schema change takes seconds on a
// busy cluster, and one that fails for a passing reason is tried again.
const (
	schemaTimeout   = time.Minute
	schemaTries     = 6
	schemaFirstWait = 250 * time.Millisecond
)

// Migrate creates what does not exist yet: the keyspace (see Config.Replication),
// the sink's own tables (see [Schema]) and, with its statements, what Config.Schema
// names; and waits until all nodes agree. It leaves alone what exists, and may be
// run at any time, by several processes at once. Errors wrap framework.ErrConfig
// or framework.ErrUnavailable.
func Migrate(ctx context.Context, cfg Config) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	keyspace := "CREATE KEYSPACE IF NOT EXISTS " + quoteIdentifier(cfg.Keyspace) + " WITH replication = "
	replication, err := replicationMap(cfg.Replication)
	if err != nil {
		return err
	}
	err = withSchemaSession(ctx, &cfg, "", func(s *gocql.Session) error {
		err := checkKeyspace(ctx, s, &cfg)
		if !errors.Is(err, framework.ErrConfig) {
			return err // it exists, or this could not be found out
		}
		if cfg.Replication == "" {
			cfg.Logger.Warn("cassandra: creating a keyspace with one copy of everything; set Config.Replication, or ?replication=3 in the DSN, before the first Migrate", "keyspace", cfg.Keyspace)
		}
		return runSchema(ctx, s, []string{keyspace + replication})
	})
	if err != nil {
		return err
	}
	return withSchemaSession(ctx, &cfg, cfg.Keyspace, func(s *gocql.Session) error {
		return migrateTables(ctx, s, &cfg)
	})
}

func migrateTables(ctx context.Context, s *gocql.Session, cfg *Config) error {
	own, err := splitCQL(ownSchema)
	if err != nil {
		return err
	}
	missing, err := missingTables(ctx, s, cfg.Keyspace)
	if err != nil {
		return err
	}
	statements := slices.DeleteFunc(own, func(cql string) bool {
		return !slices.ContainsFunc(missing, func(table string) bool { return strings.Contains(cql, " "+table+" ") })
	})
	for _, script := range cfg.Schema {
		more, err := splitCQL(script)
		if err != nil {
			return err
		}
		statements = append(statements, more...)
	}
	return runSchema(ctx, s, statements)
}

// missingTables returns which of the sink's own tables do not exist.
func missingTables(ctx context.Context, s *gocql.Session, keyspace string) ([]string, error) {
	missing := []string{ledgerTable, stageTable, pipelinesTable, stateTable, deadTable}
	iter := s.Query("SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?", keyspace).
		WithContext(ctx).Consistency(gocql.One).Iter()
	for name := ""; iter.Scan(&name); {
		missing = slices.DeleteFunc(missing, func(m string) bool { return m == name })
	}
	if err := iter.Close(); err != nil {
		return nil, fmt.Errorf("cassandra: reading the schema of %s: %w: %w", keyspace, framework.ErrUnavailable, err)
	}
	return missing, nil
}

// withSchemaSession opens a session for schema changes; keyspace may be empty.
func withSchemaSession(ctx context.Context, cfg *Config, keyspace string, f func(*gocql.Session) error) error {
	open := connect
	if keyspace != "" {
		open = connectKeyspace
	}
	s, err := open(ctx, cfg, func() *gocql.ClusterConfig {
		c := clusterConfig(cfg)
		c.Keyspace, c.Timeout = keyspace, max(cfg.Timeout, schemaTimeout)
		c.PoolConfig.HostSelectionPolicy = lowestHostFirst{c.PoolConfig.HostSelectionPolicy}
		return c
	})
	if err != nil {
		return err
	}
	defer s.Close()
	return f(s)
}

// runSchema runs statements one after the other, each when all nodes know the one
// before.
func runSchema(ctx context.Context, s *gocql.Session, statements []string) error {
	for _, cql := range statements {
		if err := runStatement(ctx, s, cql); err != nil {
			return fmt.Errorf("cassandra: migrate: %w\nthe statement: %s", err, cql)
		}
	}
	return nil
}

// runStatement runs one statement, again after a passing error.
func runStatement(ctx context.Context, s *gocql.Session, cql string) error {
	wait := schemaFirstWait
	for try := 1; ; try++ {
		err := s.Query(cql).WithContext(ctx).Exec()
		if err == nil || alreadyExists(err) {
			err = s.AwaitSchemaAgreement(ctx)
		}
		switch {
		case err == nil:
			return nil
		case refused(err):
			return fmt.Errorf("%w: %w", framework.ErrConfig, err)
		case ctx.Err() != nil || try == schemaTries:
			return fmt.Errorf("%w: %w", framework.ErrUnavailable, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait *= 2
	}
}

func alreadyExists(err error) bool {
	var request gocql.RequestError
	return errors.As(err, &request) && request.Code() == gocql.ErrCodeAlreadyExists
}

// refused reports whether the server will never accept a statement.
func refused(err error) bool {
	var request gocql.RequestError
	if !errors.As(err, &request) {
		return false
	}
	switch request.Code() {
	case gocql.ErrCodeUnauthorized, gocql.ErrCodeInvalid, gocql.ErrCodeSyntax, gocql.ErrCodeConfig:
		return true
	}
	return false
}

// lowestHostFirst sends everything to the node that is up and has the lowest
// host ID. Two nodes that create one table at the same time give it two
// identities; processes that migrate at once meet at one node, which takes
// changes in turn.
type lowestHostFirst struct{ gocql.HostSelectionPolicy }

// Pick implements gocql.HostSelectionPolicy.
func (p lowestHostFirst) Pick(q gocql.ExecutableQuery) gocql.NextHost {
	var hosts []gocql.SelectedHost
	for next := p.HostSelectionPolicy.Pick(q); ; {
		h := next()
		if h == nil {
			break
		}
		hosts = append(hosts, h)
	}
	slices.SortFunc(hosts, func(a, b gocql.SelectedHost) int { return cmp.Compare(a.Info().HostID(), b.Info().HostID()) })
	return func() gocql.SelectedHost {
		if len(hosts) == 0 {
			return nil
		}
		h := hosts[0]
		hosts = hosts[1:]
		return h
	}
}
