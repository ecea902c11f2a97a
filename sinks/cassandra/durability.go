package cassandra

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
)

// warnOfForgetting warns where a node that crashes may forget what nobody else has;
// see links.
func warnOfForgetting(ctx context.Context, s *gocql.Session, cfg *Config, server settings) error {
	if server["commitlog_sync"] != "periodic" {
		return nil
	}
	var replication map[string]string
	err := s.Query("SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?", cfg.Keyspace).
		WithContext(ctx).Consistency(gocql.One).Scan(&replication)
	if err != nil {
		return fmt.Errorf("%w: reading the keyspace's replication: %w", framework.ErrUnavailable, err)
	}
	if copiesIn(replication) == 1 {
		cfg.Logger.Warn("cassandra: there is one copy of everything, and a node that crashes forgets its last writes; replicate the keyspace, or set the server's commitlog_sync to batch or group",
			"keyspace", cfg.Keyspace, "commitlog_sync", server["commitlog_sync"], "commitlog_sync_period", server["commitlog_sync_period"])
	}
	return nil
}

// copiesIn returns how many nodes have a row, in all data centres together.
func copiesIn(replication map[string]string) int {
	sum := 0
	for name, value := range replication {
		full, _, _ := strings.Cut(value, "/") // 3/1: three, of which one is transient
		if n, err := strconv.Atoi(full); err == nil && name != "class" {
			sum += n
		}
	}
	return sum
}
