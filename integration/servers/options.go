package servers

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// defaultStartTimeout allows for a cold machine that compiles at the same time.
const defaultStartTimeout = 3 * time.Minute

// maxNodes is as many as a developer's machine may bear.
const maxNodes = 9

// Options says which servers to start. At least one of Kafka, Cassandra,
// CassandraAuth and Postgres must be set.
type Options struct {
	// Kafka asks for a single broker in KRaft mode. It creates no topic by
	// itself.
	Kafka bool

	// Cassandra asks for a node that accepts every login.
	Cassandra bool

	// CassandraNodes is how many nodes the cluster of Cassandra has, each on a
	// loopback address of its own (127.0.0.1, 127.0.0.2, …), which Linux has
	// without further ado. Defaults to 1. Containers have one; more is an error.
	CassandraNodes int

	// CassandraAuth asks for a further node, a cluster of its own, that checks
	// user and password. Its superuser is [AuthUser] with [AuthPassword].
	CassandraAuth bool

	// Postgres asks for a PostgreSQL server that checks passwords. Its superuser is
	// [PostgresUser] with [PostgresPassword].
	Postgres bool

	// TLS adds to Kafka a listener each for TLS, for logins, and for both, and to
	// the node of CassandraAuth a port for TLS; the plain ones stay. The
	// environment says where they are, see [KafkaTLS] and the functions beside
	// it. Containers ignore it.
	TLS bool

	// FastStart saves about half of the work of starting at the price of slower
	// servers afterwards: for tests, not for measurements. Containers ignore it.
	FastStart bool

	// DurableCassandra makes the Cassandra nodes answer a write only when it
	// is on disk, at the price of speed. Without it they sync now and then, as
	// Cassandra's default is, and [Service.Kill] may lose writes that they
	// acknowledged a moment before.
	DurableCassandra bool

	// Packages never uses Docker, even where an engine answers.
	Packages bool

	// StartTimeout bounds how long one server may take from launch to the
	// first good answer; downloads are not counted. Defaults to 3 minutes.
	StartTimeout time.Duration

	// Logger hears about downloads, starts and stops. Defaults to
	// [slog.Default].
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.CassandraNodes == 0 {
		o.CassandraNodes = 1
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = defaultStartTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// cassandraKind returns what sets a node apart from others.
func (o Options) cassandraKind(auth bool) cassandraKind {
	kind := cassandraKind{auth: auth, durable: o.DurableCassandra, tls: auth && o.TLS, nodes: 1}
	if !auth {
		kind.nodes = o.CassandraNodes
	}
	return kind
}

func (o Options) validate() error {
	if !o.Kafka && !o.Cassandra && !o.CassandraAuth && !o.Postgres {
		return errors.New("servers: nothing to start: set Kafka, Cassandra, CassandraAuth or Postgres in Options")
	}
	if o.CassandraNodes < 0 || o.CassandraNodes > maxNodes {
		return fmt.Errorf("servers: Options.CassandraNodes is %d: give 1 to %d, or 0 for the default", o.CassandraNodes, maxNodes)
	}
	if o.StartTimeout < 0 {
		return errors.New("servers: Options.StartTimeout is negative: give a positive duration, or 0 for the default")
	}
	return nil
}
