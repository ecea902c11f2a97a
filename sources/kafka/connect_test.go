package kafka_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/lockstep-stream/lockstep/framework"
	kafkasource "github.com/lockstep-stream/lockstep/sources/kafka"
)

func TestConfigIsRefusedBeforeAnyConnection(t *testing.T) {
	good := func() kafkasource.Config {
		return kafkasource.Config{
			Brokers: []string{"localhost:9092"}, Topics: []string{"orders"}, Group: "p",
			Dial: func(context.Context, string, string) (net.Conn, error) { panic("a connection was made") },
		}
	}
	if _, err := kafkasource.New(good()); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*kafkasource.Config){
		`Config.Brokers "h1:9092 h2:9092"`: func(c *kafkasource.Config) { c.Brokers = []string{"h1:9092 h2:9092"} },
		`Config.Brokers "h1:9092,h2"`:      func(c *kafkasource.Config) { c.Brokers = []string{"h1:9092", "h2"} },
		`Config.Topics "in,in2,in"`:        func(c *kafkasource.Config) { c.Topics = []string{"in", "in2,in"} },
		`Config.Group is " p"`:             func(c *kafkasource.Config) { c.Group = " p" },
		`Config.InstanceID is "one\n"`:     func(c *kafkasource.Config) { c.InstanceID = "one\n" },
		`Config.ClientID is " "`:           func(c *kafkasource.Config) { c.ClientID = " " },
		`Config.StartWait is -1s`:          func(c *kafkasource.Config) { c.StartWait = -time.Second },
		`Config.FetchMaxBytes is -7`:       func(c *kafkasource.Config) { c.FetchMaxBytes = -7 },
		`Config.SASL.Mechanism is 9`:       func(c *kafkasource.Config) { c.SASL = &kafkasource.SASL{Mechanism: 9, User: "u", Password: "p"} },
		"Config.Brokers":                   func(c *kafkasource.Config) { c.Brokers = nil },
		"Config.Brokers: ":                 func(c *kafkasource.Config) { c.Brokers = []string{"localhost"} },
		"Config.Topics":                    func(c *kafkasource.Config) { c.Topics = nil },
		"Config.Topics: ":                  func(c *kafkasource.Config) { c.Topics = []string{"a b"} },
		"Config.Group":                     func(c *kafkasource.Config) { c.Group = " " },
		"Config.SessionTimeout":            func(c *kafkasource.Config) { c.SessionTimeout = -1 },
		"Config.RebalanceTimeout":          func(c *kafkasource.Config) { c.RebalanceTimeout = time.Microsecond },
		"Config.StartWait":                 func(c *kafkasource.Config) { c.StartWait = -1 },
		"Config.TopicWait":                 func(c *kafkasource.Config) { c.TopicWait = -1 },
		"Config.MetadataMaxAge":            func(c *kafkasource.Config) { c.MetadataMaxAge = 1 },
		"Config.MirrorInterval":            func(c *kafkasource.Config) { c.MirrorInterval = -1 },
		"Config.FetchMaxWait":              func(c *kafkasource.Config) { c.FetchMaxWait = 1 },
		"Config.FetchMaxBytes":             func(c *kafkasource.Config) { c.FetchMaxBytes = -1 },
		"Config.FetchMaxPartitionBytes":    func(c *kafkasource.Config) { c.FetchMaxPartitionBytes = 64 << 20 },
		"Config.SASL.Mechanism":            func(c *kafkasource.Config) { c.SASL = &kafkasource.SASL{User: "u", Password: "p"} },
		"Config.SASL.User":                 func(c *kafkasource.Config) { c.SASL = &kafkasource.SASL{Mechanism: kafkasource.Plain, Password: "p"} },
		"Config.SASL.Password":             func(c *kafkasource.Config) { c.SASL = &kafkasource.SASL{Mechanism: kafkasource.Plain, User: "u"} },
	} {
		cfg := good()
		spoil(&cfg)
		_, err := kafkasource.New(cfg)
		if !errors.Is(err, framework.ErrConfig) || !strings.Contains(fmt.Sprint(err), "kafka."+strings.TrimSuffix(want, ": ")) {
			t.Errorf("%s: got %v, want %v that names it", want, err, framework.ErrConfig)
		}
	}
}

// What an operator's settings file brings along does no harm.
func TestBlanksAndEmptyEntriesInListsAreIgnored(t *testing.T) {
	cfg := kafkasource.Config{Brokers: []string{" h1:9092, ", "", "h2:9092,\n"}, Topics: []string{"\tin ", "in2,"}, Group: "p"}
	if _, err := kafkasource.New(cfg); err != nil {
		t.Error(err)
	}
}

func TestAPasswordIsNeverPrinted(t *testing.T) {
	cfg := kafkasource.Config{SASL: &kafkasource.SASL{Mechanism: kafkasource.ScramSHA512, User: "anna", Password: "secret"}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if out := fmt.Sprintf(format, cfg.SASL) + fmt.Sprintf(format, *cfg.SASL); strings.Contains(out, "secret") || !strings.Contains(out, "anna") {
			t.Errorf("%s prints %s", format, out)
		}
	}
}

func TestMechanismsAreParsedByKafkasNames(t *testing.T) {
	for _, m := range []kafkasource.Mechanism{kafkasource.Plain, kafkasource.ScramSHA256, kafkasource.ScramSHA512} {
		if got, err := kafkasource.ParseMechanism(m.String()); err != nil || got != m {
			t.Errorf("%s: got %v, %v", m, got, err)
		}
	}
	if _, err := kafkasource.ParseMechanism("plain"); !errors.Is(err, framework.ErrConfig) {
		t.Errorf("got %v, want %v", err, framework.ErrConfig)
	}
}

// freePort returns a port that was free a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func TestServersThatAreNotUpYetAreWaitedFor(t *testing.T) {
	topic := unique("late")
	port := freePort(t)
	var refused atomic.Int32
	b := &broker{t: t, addrs: []string{net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}}
	cfg := b.config(unique("group"), topic)
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			refused.Add(1)
		}
		return conn, err
	}
	lanes := newRecorder(t)
	lanes.start = from(0)
	run(t, cfg, lanes)
	eventually(t, "refused connections", func() bool { return refused.Load() >= 3 })
	_, up := fake(t, topic, 1, kfake.Ports(port))
	up.produce(topic, 0, 0, 3)
	lanes.waitNext(lanes.lane(topic, 0), 3)
}

func TestServersThatStayAwayEndTheWait(t *testing.T) {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t)))
	b := &broker{t: t, addrs: []string{address}}
	cfg := b.config("group", "topic")
	cfg.StartWait = 300 * time.Millisecond
	r := run(t, cfg, newRecorder(t))
	r.wait()
	if !errors.Is(r.err, framework.ErrUnavailable) || !strings.Contains(r.err.Error(), address) || !strings.Contains(r.err.Error(), "refused") {
		t.Errorf("got %v; want %v that names the broker and why", r.err, framework.ErrUnavailable)
	}
}

// Some servers hang up on a wrong login without a word.
func TestServersThatHangUpPointToTheLogin(t *testing.T) {
	t.Parallel()
	topic := unique("login")
	_, b := fakeLogin(t, topic)
	cfg := b.config("group", topic)
	cfg.StartWait = 2 * time.Second // enough for a connection
	cfg.SASL = &kafkasource.SASL{Mechanism: kafkasource.Plain, User: "admin", Password: "wrong"}
	r := run(t, cfg, newRecorder(t))
	r.wait()
	if !errors.Is(r.err, framework.ErrUnavailable) || !strings.Contains(r.err.Error(), "Config.SASL") {
		t.Errorf("got %v; want %v that mentions the login", r.err, framework.ErrUnavailable)
	}
}

func TestStopEndsTheWaitForServers(t *testing.T) {
	b := &broker{t: t, addrs: []string{net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t)))}}
	var dialed atomic.Bool
	cfg := b.config("group", "topic")
	cfg.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		dialed.Store(true)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	r := run(t, cfg, newRecorder(t))
	eventually(t, "a connection", dialed.Load)
	r.end()
}

func TestAMissingTopicIsRefused(t *testing.T) {
	t.Parallel()
	topic := unique("there")
	_, b := fake(t, topic, 1)
	cfg := b.config(unique("group"), topic, "nowhere")
	cfg.TopicWait = 50 * time.Millisecond
	r := run(t, cfg, newRecorder(t))
	r.wait()
	if !errors.Is(r.err, framework.ErrConfig) || !strings.Contains(r.err.Error(), `"nowhere"`) {
		t.Errorf("got %v; want %v that names the topic", r.err, framework.ErrConfig)
	}
}

func TestATopicThatIsCreatedInTimeIsRead(t *testing.T) {
	t.Parallel()
	topic, late := unique("there"), unique("late")
	c, b := fake(t, topic, 1)
	cfg := b.config(unique("group"), topic, late)
	cfg.TopicWait = limit
	var log syncBuffer
	cfg.Logger = log.logger()
	lanes := newRecorder(t)
	lanes.start = from(0)
	run(t, cfg, lanes)
	eventually(t, "the wait", func() bool { return strings.Contains(log.String(), late) })
	if err := c.CreateTopic(late, 1, nil); err != nil {
		t.Fatal(err)
	}
	lanes.lane(topic, 0)
	lanes.lane(late, 0)
}

func TestLogin(t *testing.T) {
	t.Parallel()
	topic := unique("login")
	c, b := fakeLogin(t, topic)
	for _, test := range []struct {
		name string
		sasl *kafkasource.SASL
		ok   bool
	}{
		{"plain", &kafkasource.SASL{Mechanism: kafkasource.Plain, User: "admin", Password: "right"}, true},
		{"scram", &kafkasource.SASL{Mechanism: kafkasource.ScramSHA256, User: "scram", Password: "right"}, true},
		{"scram 512", &kafkasource.SASL{Mechanism: kafkasource.ScramSHA512, User: "scram5", Password: "right"}, true},
		{"wrong password", &kafkasource.SASL{Mechanism: kafkasource.Plain, User: "admin", Password: "wrong"}, false},
		{"wrong password over scram", &kafkasource.SASL{Mechanism: kafkasource.ScramSHA256, User: "scram", Password: "wrong"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := b.config(unique("group"), topic)
			cfg.Logger = testLog(t)
			cfg.SASL = test.sasl
			if !test.ok { // the in-process Kafka would only hang up
				refusal := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.SASLAuthenticate}, Err: kerr.SaslAuthenticationFailed, TopLevel: true, Count: -1})
				defer refusal.Remove()
			}
			lanes := newRecorder(t)
			lanes.start = from(0)
			r := run(t, cfg, lanes)
			if test.ok {
				lanes.lane(topic, 0)
				return
			}
			r.wait()
			if !errors.Is(r.err, framework.ErrConfig) || !strings.Contains(r.err.Error(), "Config.SASL") || strings.Contains(r.err.Error(), "wrong password") {
				t.Errorf("got %v; want %v that names the setting", r.err, framework.ErrConfig)
			}
		})
	}
}

func fakeLogin(t *testing.T, topic string) (*kfake.Cluster, *broker) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic), kfake.EnableSASL(),
		kfake.Superuser("PLAIN", "admin", "right"), kfake.Superuser("SCRAM-SHA-256", "scram", "right"), kfake.Superuser("SCRAM-SHA-512", "scram5", "right"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, newBroker(t, c.ListenAddrs(), kgo.SASL(plain.Auth{User: "admin", Pass: "right"}.AsMechanism()))
}

func TestTLS(t *testing.T) {
	topic := unique("tls")
	cert, pool := selfSigned(t)
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	b := &broker{t: t, addrs: c.ListenAddrs()}

	for name, dial := range map[string]func(context.Context, string, string) (net.Conn, error){"own dialer": new(net.Dialer).DialContext, "client's dialer": nil} {
		t.Run(name, func(t *testing.T) {
			cfg := b.config(unique("group"), topic)
			cfg.Logger = testLog(t)
			cfg.TLS, cfg.Dial = &tls.Config{RootCAs: pool}, dial
			lanes := newRecorder(t)
			run(t, cfg, lanes)
			lanes.lane(topic, 0)
		})
		t.Run(name+", unknown authority", func(t *testing.T) {
			cfg := b.config(unique("group"), topic)
			cfg.Logger = testLog(t)
			cfg.TLS, cfg.Dial = &tls.Config{RootCAs: x509.NewCertPool()}, dial
			r := run(t, cfg, newRecorder(t))
			r.wait()
			if !errors.Is(r.err, framework.ErrConfig) || !strings.Contains(r.err.Error(), "Config.TLS") {
				t.Errorf("got %v; want %v that names the setting", r.err, framework.ErrConfig)
			}
		})
	}
}

func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		DNSNames:     []string{"localhost"},
		IsCA:         true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}
