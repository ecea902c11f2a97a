package cassandra

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
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
	// TLS encrypts the connections; certificates are verified unless it says
	// otherwise. Nil means plain text.
	TLS *tls.Config
	// Consistency defaults to Global.
	Consistency Consistency
	// Replication is for a keyspace that Migrate has to create: the number of
	// copies in every data centre ("3"), or in each ("dc1:3,dc2:2"). Defaults to
	// "1", with a warning: one lost disk then loses everything.
	Replication string
	// Tables are all tables that the pipelines write to. A write to another is
	// refused.
	Tables []AnyTable
	// Schema are the statements of the program's own tables, or whole scripts of
	// them, run by Migrate in order, in Keyspace. They must be idempotent
	// (IF NOT EXISTS).
	Schema []string
	// StartWait bounds how long Open waits for a cluster that is not up yet.
	// Defaults to 60 s; negative means not at all.
	StartWait time.Duration
	// Timeout bounds each request. Defaults to 10 s; it must stay above what the
	// server itself allows, which is 3.8 s for a commit.
	Timeout time.Duration
	// ConnectTimeout bounds the setup of a connection. Defaults to 5 s.
	ConnectTimeout time.Duration
	// MaxWriteBytes bounds a single write. Defaults to 1 MiB, or a quarter of the
	// server's max_mutation_size if that is less; more than that is refused.
	MaxWriteBytes int
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// AnyTable is a [Table] of any row type.
type AnyTable interface {
	Name() string
	declared() (*target, error)
}

// Defaults of Config.
const (
	defaultPort           = 9042
	defaultStartWait      = 60 * time.Second
	defaultTimeout        = 10 * time.Second
	defaultConnectTimeout = 5 * time.Second
	defaultMaxWrite       = 1 << 20
	minTimeout            = 4 * time.Second
)

// withDefaults returns a copy with defaults filled in, or an error that wraps
// framework.ErrConfig and names the field.
func (c Config) withDefaults() (Config, error) {
	c.Hosts = slices.Clone(c.Hosts)
	if len(c.Hosts) == 0 {
		c.Hosts = []string{"127.0.0.1"}
	}
	c.StartWait = orDefault(c.StartWait, defaultStartWait)
	c.Timeout = orDefault(c.Timeout, defaultTimeout)
	c.ConnectTimeout = orDefault(c.ConnectTimeout, defaultConnectTimeout)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if field, err := c.fault(); err != nil {
		return c, fmt.Errorf("cassandra: Config.%s: %w: %w", field, framework.ErrConfig, err)
	}
	return c, nil
}

func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

// fault returns the first field that cannot be used, and why. It completes
// Hosts with ports.
func (c *Config) fault() (string, error) {
	for i, h := range c.Hosts {
		full, err := hostPort(h)
		if err != nil {
			return "Hosts", err
		}
		c.Hosts[i] = full
	}
	if c.Keyspace == "" {
		return "Keyspace", fmt.Errorf("it is required")
	}
	if err := validIdentifier(c.Keyspace); err != nil {
		return "Keyspace", err
	}
	if (c.Username == "") != (c.Password == "") {
		return "Username", fmt.Errorf("username and password go together; one of them is empty")
	}
	if _, err := replicationMap(c.Replication); err != nil {
		return "Replication", err
	}
	if c.Timeout < minTimeout {
		return "Timeout", fmt.Errorf("%s is below %s: the server itself may take 3.8 s to commit, and giving up earlier leaves outcomes unknown", c.Timeout, minTimeout)
	}
	if c.ConnectTimeout < 0 {
		return "ConnectTimeout", fmt.Errorf("%s is negative", c.ConnectTimeout)
	}
	if c.MaxWriteBytes < 0 {
		return "MaxWriteBytes", fmt.Errorf("%d is negative", c.MaxWriteBytes)
	}
	return c.tablesFault()
}

func (c *Config) tablesFault() (string, error) {
	for _, t := range c.Tables {
		if t == nil {
			return "Tables", fmt.Errorf("one of them is nil")
		}
		if _, err := t.declared(); err != nil {
			return "Tables", err
		}
		if strings.HasPrefix(t.Name(), "lockstep_") {
			return "Tables", fmt.Errorf("table %q: the prefix lockstep_ is for the sink's own tables", t.Name())
		}
	}
	for _, script := range c.Schema {
		if _, err := splitCQL(script); err != nil {
			return "Schema", err
		}
	}
	return "", nil
}

// hostPort checks host or host:port, and completes it.
func hostPort(s string) (string, error) {
	host, port := s, strconv.Itoa(defaultPort)
	if strings.HasPrefix(s, "[") || strings.Count(s, ":") == 1 {
		if strings.HasSuffix(s, "]") {
			host = s[1 : len(s)-1]
		} else {
			var err error
			if host, port, err = net.SplitHostPort(s); err != nil {
				return "", fmt.Errorf("host %q: %w", s, err)
			}
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("host %q: port %q is not a number from 1 to 65535", s, port)
	}
	if host == "" || strings.ContainsAny(host, " \t\r\n/@,") {
		return "", fmt.Errorf("host %q: not a host name or address", s)
	}
	return net.JoinHostPort(host, port), nil
}

// replicationMap returns the CQL map for Config.Replication. NetworkTopologyStrategy
// also serves a single data centre, and does not have to be changed when there
// is a second.
func replicationMap(s string) (string, error) {
	if s == "" {
		s = "1"
	}
	if n, ok := copies(s); ok {
		return fmt.Sprintf("{'class': 'NetworkTopologyStrategy', 'replication_factor': '%d'}", n), nil
	}
	m := "{'class': 'NetworkTopologyStrategy'"
	for part := range strings.SplitSeq(s, ",") {
		dc, count, _ := strings.Cut(strings.TrimSpace(part), ":")
		n, ok := copies(count)
		if !ok || dc == "" || strings.ContainsAny(dc, `'"{}`) {
			return "", fmt.Errorf("%q: expected a number of copies such as 3, or dc1:3,dc2:2", s)
		}
		m += fmt.Sprintf(", '%s': '%d'", dc, n)
	}
	return m + "}", nil
}

func copies(s string) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, 8)
	return n, err == nil && n > 0
}

// String describes where c leads, without the password.
func (c Config) String() string {
	user := ""
	if c.Username != "" {
		user = c.Username + "@"
	}
	return "cassandra://" + user + strings.Join(c.Hosts, ",") + "/" + c.Keyspace
}

// GoString is String, so that no way of printing shows the password.
func (c Config) GoString() string { return c.String() }

// LogValue is String.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }
