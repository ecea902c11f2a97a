package cassandra

import (
	"context"

	"github.com/gocql/gocql"
)

// protocolVersion is the newest native protocol the driver speaks in full.
const protocolVersion = 4

// server is what preflight learned of the cluster.
type server struct {
	version     string
	maxMutation int // bytes
	maxWrite    int // bytes of a single write
	maxChunk    int // bytes of a stage chunk
}

// openSession connects with cfg (defaults filled in) to its keyspace. It waits
// for a cluster that is not up yet, never for one that refuses us.
func openSession(ctx context.Context, cfg *Config) (*gocql.Session, error) { panic("todo") }

// preflight checks version, settings and clock.
func preflight(ctx context.Context, s *gocql.Session, cfg *Config) (server, error) { panic("todo") }
