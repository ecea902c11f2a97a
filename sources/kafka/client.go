package kafka

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// requestRetry bounds how long the client repeats a request by itself. What is
// worth repeating longer is repeated by the caller, who can log and stop.
const requestRetry = 5 * time.Second

// newClient returns the client of one run. It does not consume until topics are
// added to it.
func (r *run) newClient() (*kgo.Client, error) {
	c := &r.cfg
	var ctx context.Context
	ctx, r.cutOff = context.WithCancel(context.Background())
	opts := []kgo.Opt{
		kgo.WithContext(ctx),
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID(c.ClientID),
		kgo.WithLogger(r.log),
		kgo.WithHooks(&r.conns, &r.fetch),
		kgo.DisableClientMetrics(),
		kgo.MetadataMaxAge(c.MetadataMaxAge),
		kgo.MetadataMinAge(min(time.Second, c.MetadataMaxAge)),
		kgo.RetryTimeoutFn(c.retryTimeout),

		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxBytes(r.fetch.of(c.FetchMaxBytes)),
		kgo.FetchMaxPartitionBytes(r.fetch.of(c.FetchMaxPartitionBytes)),
		kgo.FetchMaxWait(c.FetchMaxWait),
		// The client must never choose a position: an offset out of range is
		// reported to us instead of being "reset".
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),

		kgo.ConsumerGroup(c.Group),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.SessionTimeout(c.SessionTimeout),
		kgo.HeartbeatInterval(c.heartbeat()),
		kgo.RebalanceTimeout(c.RebalanceTimeout),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(r.onAssigned),
		kgo.OnPartitionsRevoked(r.onRevoked),
		kgo.OnPartitionsLost(r.onLost),
		kgo.AdjustFetchOffsetsFn(r.onCommitted),
	}
	if c.InstanceID != "" {
		opts = append(opts, kgo.InstanceID(c.InstanceID))
	}
	if c.SASL != nil {
		opts = append(opts, kgo.SASL(c.SASL.mechanism()))
	}
	switch {
	case c.Dial != nil:
		opts = append(opts, kgo.Dialer(c.dialer()))
	case c.TLS != nil:
		opts = append(opts, kgo.DialTLSConfig(c.TLS))
	}
	return kgo.NewClient(opts...)
}

// retryTimeout keeps the client's own limits for the group's handshake, which
// lasts as long as the session.
func (c *Config) retryTimeout(key int16) time.Duration {
	switch kmsg.Key(key) {
	case kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat:
		return c.SessionTimeout
	default:
		return requestRetry
	}
}

// dialer is Config.Dial, with TLS on top if that is configured.
func (c *Config) dialer() func(context.Context, string, string) (net.Conn, error) {
	if c.TLS == nil {
		return c.Dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := c.Dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		cfg := c.TLS.Clone()
		if cfg.ServerName == "" {
			if cfg.ServerName, _, err = net.SplitHostPort(address); err != nil {
				cfg.ServerName = address
			}
		}
		secure := tls.Client(conn, cfg)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close() // the handshake's error says more
			return nil, err
		}
		return secure, nil
	}
}
