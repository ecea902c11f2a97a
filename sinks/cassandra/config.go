package cassandra

import (
	"crypto/tls"
	"log/slog"
	"time"
)

// Config says how to reach Cassandra and what the sink may write there. Only
// Keyspace is required; [ParseDSN] makes one from a URL.
type Config struct {
	// Hosts are the first nodes to contact, as host or host:port; the others are
	// discovered. Defaults to 127.0.0.1; the port to 9042.
	Hosts []string
	// Keyspace holds the sink's own tables and the tables it writes to.
	Keyspace string
	// Username and Password log in by password. Both empty means no login.
	Username, Password string
	// TLS encrypts the connections. Nil means plain text.
	TLS *tls.Config
	// Consistency defaults to Global.
	Consistency Consistency
	// Replication is the replication map of a keyspace that Migrate has to
	// create, in CQL, for example {'class': 'NetworkTopologyStrategy', 'dc1': 3}.
	// Defaults to one copy of everything, with a warning.
	Replication string
	// Tables are all tables that the pipelines write to. A write to another is
	// refused.
	Tables []AnyTable
	// Schema are the statements of the program's own tables, run by Migrate in
	// order. They must be idempotent (IF NOT EXISTS).
	Schema []string
	// StartWait bounds how long Open waits for a cluster that is not up yet.
	// Defaults to 60 s; negative means not at all.
	StartWait time.Duration
	// Timeout bounds each request. Defaults to 10 s; the server's own limits add
	// up to 3.8 s.
	Timeout time.Duration
	// ConnectTimeout bounds the setup of a connection. Defaults to 5 s.
	ConnectTimeout time.Duration
	// MaxWriteBytes bounds a single write. Defaults to 1 MiB, or a quarter of the
	// server's max_mutation_size if that is less.
	MaxWriteBytes int
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// AnyTable is a [Table] of any row type.
type AnyTable interface {
	Name() string
	declared() (*target, error)
}
