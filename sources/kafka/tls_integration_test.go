//go:build integration && tls

package kafka_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/integration/servers"
	"github.com/lockstep-stream/lockstep/offsetstore"
	kafkasource "github.com/lockstep-stream/lockstep/sources/kafka"
)

// Every listener and login of one broker is read through, and each wrong setting is
// named without waiting, before anything of the group has changed.
func TestRealKafkaTLSAndLogins(t *testing.T) {
	topic, group := unique("real-tls"), unique("group")
	b := realKafka(t, topic, 1)
	b.produce(topic, 0, 0, 10)
	plain, overTLS, login, both := servers.Kafka(t), servers.KafkaTLS(t), servers.KafkaSASL(t), servers.KafkaSASLTLS(t)
	trusted := &tls.Config{RootCAs: authorities(t)}
	user := func(m kafkasource.Mechanism) *kafkasource.SASL {
		return &kafkasource.SASL{Mechanism: m, User: servers.KafkaUser, Password: servers.KafkaPassword}
	}

	offset := int64(0)
	for name, edit := range map[string]func(*kafkasource.Config){
		"TLS":           func(c *kafkasource.Config) { c.Brokers, c.TLS = []string{overTLS}, trusted },
		"PLAIN":         func(c *kafkasource.Config) { c.Brokers, c.SASL = []string{login}, user(kafkasource.Plain) },
		"SCRAM-SHA-256": func(c *kafkasource.Config) { c.Brokers, c.SASL = []string{login}, user(kafkasource.ScramSHA256) },
		"SCRAM-SHA-512": func(c *kafkasource.Config) { c.Brokers, c.SASL = []string{login}, user(kafkasource.ScramSHA512) },
		"TLS and PLAIN": func(c *kafkasource.Config) {
			c.Brokers, c.TLS, c.SASL = []string{both}, trusted, user(kafkasource.Plain)
		},
		"TLS and SCRAM-SHA-512": func(c *kafkasource.Config) {
			c.Brokers, c.TLS, c.SASL = []string{both}, trusted, user(kafkasource.ScramSHA512)
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := b.realConfig(group, topic)
			edit(&cfg)
			lanes := newRecorder(t)
			lanes.start = from(0)
			r := run(t, cfg, lanes)
			l := lanes.lane(topic, 0)
			lanes.waitNext(l, 10)
			offset++
			l.p.Mirror(offsetstore.At(offset))
			r.end()
			if at, _ := b.groupOffset(group, topic, 0); at != offset {
				t.Errorf("the group is at %d, want %d", at, offset)
			}
		})
	}

	for name, wrong := range map[string]struct {
		edit func(*kafkasource.Config)
		want string // ErrConfig that names the setting
	}{
		"another authority": {func(c *kafkasource.Config) {
			c.Brokers, c.TLS = []string{overTLS}, &tls.Config{RootCAs: x509.NewCertPool()}
		}, "Config.TLS"},
		"another host name": {func(c *kafkasource.Config) {
			c.Brokers, c.TLS = []string{overTLS}, &tls.Config{RootCAs: authorities(t), ServerName: "kafka.example.org"}
		}, "Config.TLS"},
		"wrong password": {func(c *kafkasource.Config) {
			c.Brokers, c.SASL = []string{login}, user(kafkasource.Plain)
			c.SASL.Password = "wrong-secret"
		}, "Config.SASL"},
		"wrong password over SCRAM and TLS": {func(c *kafkasource.Config) {
			c.Brokers, c.TLS, c.SASL = []string{both}, trusted, user(kafkasource.ScramSHA512)
			c.SASL.Password = "wrong-secret"
		}, "Config.SASL"},
		"unknown user": {func(c *kafkasource.Config) {
			c.Brokers, c.SASL = []string{login}, user(kafkasource.ScramSHA256)
			c.SASL.User = "nobody"
		}, "Config.SASL"},
		"login where none is wanted": {func(c *kafkasource.Config) { c.Brokers, c.SASL = []string{plain}, user(kafkasource.Plain) }, "Config.SASL"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := b.realConfig(group, topic)
			cfg.StartWait = limit // what waiting cannot mend is not waited for
			wrong.edit(&cfg)
			wantRefusal(t, cfg, framework.ErrConfig, wrong.want)
		})
	}

	// Here the broker only hangs up, as one that is just starting may: it is waited for.
	for name, silent := range map[string]struct {
		edit func(*kafkasource.Config)
		want string
	}{
		"no login where one is wanted":   {func(c *kafkasource.Config) { c.Brokers = []string{login} }, "Config.SASL"},
		"TLS where it is not spoken":     {func(c *kafkasource.Config) { c.Brokers, c.TLS = []string{plain}, trusted }, "Config.TLS"},
		"TLS without the login it wants": {func(c *kafkasource.Config) { c.Brokers, c.TLS = []string{both}, trusted }, "Config.SASL"},
		"plain where TLS is spoken":      {func(c *kafkasource.Config) { c.Brokers = []string{overTLS} }, "Config.TLS"},
		"login in plain where TLS is":    {func(c *kafkasource.Config) { c.Brokers, c.SASL = []string{both}, user(kafkasource.Plain) }, "Config.TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := b.realConfig(group, topic)
			cfg.StartWait = time.Second
			silent.edit(&cfg)
			wantRefusal(t, cfg, framework.ErrUnavailable, silent.want)
		})
	}
	if at, _ := b.groupOffset(group, topic, 0); at != offset {
		t.Errorf("the group is at %d in the end, want %d as before", at, offset)
	}
}

func wantRefusal(t *testing.T, cfg kafkasource.Config, kind error, names string) {
	t.Helper()
	r := run(t, cfg, newRecorder(t))
	r.wait()
	if !errors.Is(r.err, kind) || !strings.Contains(r.err.Error(), names) {
		t.Errorf("got %v; want %v that names %s", r.err, kind, names)
	}
	if strings.Contains(r.err.Error(), "wrong-secret") {
		t.Errorf("the password is in the error: %v", r.err)
	}
}

// authorities trusts who has signed the test run's certificates.
func authorities(t *testing.T) *x509.CertPool {
	t.Helper()
	text, err := os.ReadFile(servers.Authority(t))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		t.Fatal("no certificate in the authority's file")
	}
	return pool
}
