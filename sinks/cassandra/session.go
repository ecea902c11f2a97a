package cassandra

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
)

// protocolVersion is the newest native protocol the driver speaks in full.
const protocolVersion = 4

// reconnectEvery is how often nodes that are down are tried again.
const reconnectEvery = 5 * time.Second

// openSession connects with cfg (defaults filled in) to its keyspace. While the
// cluster is not up it waits, for cfg.StartWait at most, and then returns
// framework.ErrUnavailable. A refused login, an untrusted certificate, or a
// keyspace or data centre that does not exist is framework.ErrConfig at once. The
// session's connections are counted in l.
func openSession(ctx context.Context, cfg *Config, l *links) (*gocql.Session, error) {
	first, err := connect(ctx, cfg, func() *gocql.ClusterConfig { return clusterConfig(cfg) })
	if err != nil {
		return nil, err
	}
	defer first.Close()
	// The driver would try for ever to use a keyspace that does not exist.
	if err := checkKeyspace(ctx, first, cfg); err != nil {
		return nil, err
	}
	local, err := localHosts(ctx, first, cfg)
	if err != nil {
		return nil, err
	}
	return connectKeyspace(ctx, cfg, func() *gocql.ClusterConfig {
		c := clusterConfig(cfg)
		// The driver routes batches to a replica only in the session's own keyspace.
		c.Keyspace = cfg.Keyspace
		l.dialer = net.Dialer{Timeout: c.ConnectTimeout, KeepAlive: c.SocketKeepalive}
		c.Dialer = l
		if dc := cfg.Consistency.DC(); dc != "" {
			// LOCAL_QUORUM means the data centre of the node that is asked.
			c.HostFilter = gocql.DataCentreHostFilter(dc)
			c.Hosts = append(c.Hosts, local...)
		}
		return c
	})
}

// keyspaceWait is how long a keyspace that exists may take to become usable. A
// node lists one that is just being created a moment before it lets anyone in.
const keyspaceWait = 10 * time.Second

// connectKeyspace is connect for a cluster that was just seen to be up.
func connectKeyspace(ctx context.Context, cfg *Config, settings func() *gocql.ClusterConfig) (*gocql.Session, error) {
	patient := *cfg
	patient.StartWait = max(cfg.StartWait, keyspaceWait)
	return connect(ctx, &patient, settings)
}

// clusterConfig returns the driver's settings, without a keyspace.
func clusterConfig(cfg *Config) *gocql.ClusterConfig {
	c := gocql.NewCluster(cfg.Hosts...)
	// Other nodes are assumed to listen on the port of the first.
	if _, port, err := net.SplitHostPort(cfg.Hosts[0]); err == nil {
		c.Port, _ = strconv.Atoi(port)
	}
	c.ProtoVersion = protocolVersion
	c.Timeout, c.ConnectTimeout, c.WriteTimeout = cfg.Timeout, cfg.ConnectTimeout, cfg.Timeout
	c.Consistency, c.SerialConsistency = cfg.Consistency.quorum(), cfg.Consistency.serial()
	c.RetryPolicy = nil // a retry the protocol does not know of would be a second outcome
	c.DefaultIdempotence = false
	c.DefaultTimestamp = false // every timestamp is given by us
	c.ReconnectInterval = reconnectEvery
	c.SocketKeepalive = 30 * time.Second
	fallback := gocql.RoundRobinHostPolicy()
	if dc := cfg.Consistency.DC(); dc != "" {
		fallback = gocql.DCAwareRoundRobinPolicy(dc)
	}
	// Replicas unshuffled: conditional statements of one row then meet at one node.
	c.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(fallback)
	if cfg.Username != "" {
		c.Authenticator = gocql.PasswordAuthenticator{Username: cfg.Username, Password: cfg.Password}
	}
	if cfg.TLS != nil {
		c.SslOpts = &gocql.SslOptions{Config: cfg.TLS.Clone(), EnableHostVerification: !cfg.TLS.InsecureSkipVerify}
	}
	return c
}

// The pauses between attempts to connect, and between log lines about it.
const (
	connectFirstPause = 200 * time.Millisecond
	connectMostPause  = 2 * time.Second
	connectLogEvery   = 5 * time.Second
)

// connect opens a session, again and again until it succeeds, cfg.StartWait is
// over, or the error is one that waiting cannot mend. settings is called for each
// attempt: the driver does not allow a policy to be used twice.
func connect(ctx context.Context, cfg *Config, settings func() *gocql.ClusterConfig) (*gocql.Session, error) {
	start := time.Now()
	var logged time.Time
	for pause := connectFirstPause; ; pause = min(2*pause, connectMostPause) {
		s, err := attempt(ctx, cfg, settings())
		if err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("cassandra: %s: connecting: %w (last error: %w)", cfg, context.Cause(ctx), err)
		}
		if permanent(err) {
			return nil, fmt.Errorf("cassandra: %s: %w: %w%s", cfg, framework.ErrConfig, err, hint(err))
		}
		if time.Since(start)+pause > cfg.StartWait {
			return nil, fmt.Errorf("cassandra: no node of %s answered within %s: %w: %w%s",
				strings.Join(cfg.Hosts, ", "), max(cfg.StartWait, 0), framework.ErrUnavailable, err, cfg.hangUpHint(err))
		}
		if time.Since(logged) >= connectLogEvery {
			logged = time.Now()
			cfg.Logger.Info("cassandra: waiting for the cluster", "hosts", cfg.Hosts,
				"waited", time.Since(start).Round(time.Second), "limit", cfg.StartWait, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// attempt opens a session once. The driver cannot be interrupted; if ctx ends
// first, what it opens later is closed.
func attempt(ctx context.Context, cfg *Config, cluster *gocql.ClusterConfig) (*gocql.Session, error) {
	log := &driverLogger{log: cfg.Logger}
	var watch connectWatch
	cluster.Logger, cluster.ConnectObserver = log, &watch
	type result struct {
		session *gocql.Session
		err     error
	}
	done := make(chan result, 1)
	go func() {
		s, err := cluster.CreateSession()
		if err == nil && ctx.Err() != nil {
			s.Close()
			err = ctx.Err()
		}
		done <- result{s, err}
	}()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case r := <-done:
		if r.err != nil {
			return nil, watch.explain(r.err)
		}
		log.opened.Store(true)
		return r.session, nil
	}
}

// connectWatch keeps the error of the last connection that failed. The driver's
// own error of a session is text only, and may name no cause at all.
type connectWatch struct {
	mu  sync.Mutex
	err error
}

// ObserveConnect implements gocql.ConnectObserver.
func (w *connectWatch) ObserveConnect(o gocql.ObservedConnect) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o.Err != nil && (w.err == nil || !permanent(w.err)) {
		w.err = fmt.Errorf("%s: %w", net.JoinHostPort(o.Host.ConnectAddress().String(), strconv.Itoa(o.Host.Port())), o.Err)
	}
}

// explain returns the connection's error if there is one, else the session's.
func (w *connectWatch) explain(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	return err
}

// permanent reports whether waiting cannot mend an error of connecting.
func permanent(err error) bool {
	var request gocql.RequestError
	if errors.As(err, &request) {
		return request.Code() == gocql.ErrCodeCredentials || request.Code() == gocql.ErrCodeUnauthorized
	}
	var untrusted *tls.CertificateVerificationError
	var notTLS tls.RecordHeaderError
	var authority x509.UnknownAuthorityError
	return errors.As(err, &untrusted) || errors.As(err, &notTLS) || errors.As(err, &authority) ||
		authenticationText(err)
}

// authenticationText recognises the two refusals that the driver makes up itself,
// as text only: no login given where one is needed, and an unknown kind of login.
func authenticationText(err error) bool {
	s := err.Error()
	return strings.Contains(s, "authentication required") || strings.Contains(s, "unexpected authenticator")
}

// hint says what to do about a permanent error.
func hint(err error) string {
	var request gocql.RequestError
	switch {
	case errors.As(err, &request):
		return "; check Username and Password"
	case authenticationText(err):
		return "; the cluster wants a login: set Username and Password"
	default:
		return "; check TLS and its certificates"
	}
}

// hangUpHint says what it may mean that a node accepts a connection and ends it.
func (c *Config) hangUpHint(err error) string {
	hungUp := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	if !hungUp || c.TLS != nil {
		return ""
	}
	return "; the port may want TLS: set Config.TLS, or tls=on in the DSN"
}

func checkKeyspace(ctx context.Context, s *gocql.Session, cfg *Config) error {
	var name string
	err := s.Query("SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?", cfg.Keyspace).
		WithContext(ctx).Consistency(gocql.One).Scan(&name)
	switch {
	case errors.Is(err, gocql.ErrNotFound):
		return fmt.Errorf("cassandra: %s: %w: keyspace %q does not exist; create it, or run Migrate or `lockstep migrate --sink …`", cfg, framework.ErrConfig, cfg.Keyspace)
	case err != nil:
		return fmt.Errorf("cassandra: %s: reading the keyspaces: %w: %w", cfg, framework.ErrUnavailable, err)
	}
	return nil
}

// localHosts returns the addresses of the nodes in the data centre of a Local
// consistency, so that Config.Hosts may be nodes of any. It refuses a data centre
// that no node is in: the driver would only ever say that there are no hosts.
func localHosts(ctx context.Context, s *gocql.Session, cfg *Config) ([]string, error) {
	dc := cfg.Consistency.DC()
	if dc == "" {
		return nil, nil
	}
	var hosts, found []string
	for _, from := range []string{"rpc_address, rpc_port FROM system.local", "native_address, native_port FROM system.peers_v2"} {
		iter := s.Query("SELECT data_center, " + from).WithContext(ctx).Consistency(gocql.One).Iter()
		var name string
		var ip net.IP
		var port int
		for iter.Scan(&name, &ip, &port) {
			found = append(found, name)
			if name == dc {
				hosts = append(hosts, net.JoinHostPort(ip.String(), strconv.Itoa(port)))
			}
		}
		if err := iter.Close(); err != nil {
			return nil, fmt.Errorf("cassandra: %s: reading the data centres: %w: %w", cfg, framework.ErrUnavailable, err)
		}
	}
	if len(hosts) == 0 {
		slices.Sort(found)
		return nil, fmt.Errorf("cassandra: %s: %w: data centre %q of Config.Consistency does not exist; there are %q",
			cfg, framework.ErrConfig, dc, slices.Compact(found))
	}
	return hosts, nil
}
