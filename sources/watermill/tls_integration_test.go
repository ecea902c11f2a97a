//go:build integration && tls

package watermill_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/integration/servers"
	"github.com/lockstep-stream/lockstep/offsetstore"
	watermillsource "github.com/lockstep-stream/lockstep/sources/watermill"
)

// Every listener and login of one broker is read through, and each wrong setting is
// named without waiting, before anything of the group has changed.
func TestRealKafkaTLSAndLogins(t *testing.T) {
	b := realKafka(t)
	topic, group := topicOf(b, 10), unique("group")
	plain, overTLS, login, both := servers.Kafka(t), servers.KafkaTLS(t), servers.KafkaSASL(t), servers.KafkaSASLTLS(t)
	trusted := &tls.Config{RootCAs: authorities(t)}
	type edit = func(*sarama.Config)
	secure := func(c *tls.Config) edit {
		return func(s *sarama.Config) { s.Net.TLS.Enable, s.Net.TLS.Config = true, c }
	}
	user := func(m sarama.SASLMechanism, name, password string) edit {
		return func(s *sarama.Config) {
			s.Net.SASL.Enable, s.Net.SASL.Mechanism, s.Net.SASL.User, s.Net.SASL.Password = true, m, name, password
			s.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{sha512: m == sarama.SASLTypeSCRAMSHA512} }
		}
	}
	right := func(m sarama.SASLMechanism) edit { return user(m, servers.KafkaUser, servers.KafkaPassword) }
	config := func(address string, edits ...edit) watermillsource.KafkaConfig {
		cfg := b.config(group, topic)
		cfg.Subscriber.Brokers = []string{address}
		for _, e := range edits {
			e(cfg.Subscriber.OverwriteSaramaConfig)
		}
		return cfg
	}

	offset := int64(0)
	for name, cfg := range map[string]watermillsource.KafkaConfig{
		"TLS":                   config(overTLS, secure(trusted)),
		"PLAIN":                 config(login, right(sarama.SASLTypePlaintext)),
		"SCRAM-SHA-256":         config(login, right(sarama.SASLTypeSCRAMSHA256)),
		"TLS and PLAIN":         config(both, secure(trusted), right(sarama.SASLTypePlaintext)),
		"TLS and SCRAM-SHA-512": config(both, secure(trusted), right(sarama.SASLTypeSCRAMSHA512)),
	} {
		t.Run(name, func(t *testing.T) {
			src, err := watermillsource.NewKafka(cfg)
			lanes, stop := run(t, src, err)
			lanes.wait(10)
			offset++
			lanes.partition().Mirror(offsetstore.At(offset))
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if at := b.groupOffset(group, topic, 0); at != offset {
				t.Errorf("the group is at %d, want %d", at, offset)
			}
		})
	}

	stranger := &tls.Config{RootCAs: authorities(t), ServerName: "kafka.example.org"}
	for name, wrong := range map[string]struct {
		cfg  watermillsource.KafkaConfig
		want string // ErrConfig that names the setting
	}{
		"another authority":                 {config(overTLS, secure(&tls.Config{RootCAs: x509.NewCertPool()})), "Net.TLS"},
		"another host name":                 {config(overTLS, secure(stranger)), "Net.TLS"},
		"wrong password":                    {config(login, user(sarama.SASLTypePlaintext, servers.KafkaUser, "wrong-secret")), "Net.SASL"},
		"wrong password over SCRAM and TLS": {config(both, secure(trusted), user(sarama.SASLTypeSCRAMSHA512, servers.KafkaUser, "wrong-secret")), "Net.SASL"},
		"unknown user":                      {config(login, user(sarama.SASLTypeSCRAMSHA256, "nobody", servers.KafkaPassword)), "Net.SASL"},
	} {
		t.Run(name, func(t *testing.T) { wantRefusal(t, wrong.cfg, limit, framework.ErrConfig, wrong.want) })
	}

	// Here the broker only hangs up, as one that is just starting may: it is waited for.
	for name, silent := range map[string]struct {
		cfg  watermillsource.KafkaConfig
		want string
	}{
		"no login where one is wanted":   {config(login), "Net.SASL"},
		"TLS without the login it wants": {config(both, secure(trusted)), "Net.SASL"},
		"plain where TLS is spoken":      {config(overTLS), "Net.TLS"},
		"login in plain where TLS is":    {config(both, right(sarama.SASLTypePlaintext)), "Net.TLS"},
		"TLS where it is not spoken":     {config(plain, secure(trusted)), "Net.TLS"},
		"login where none is wanted":     {config(plain, right(sarama.SASLTypePlaintext)), "Net.SASL"},
	} {
		t.Run(name, func(t *testing.T) {
			wantRefusal(t, silent.cfg, time.Second, framework.ErrUnavailable, silent.want)
		})
	}
	if at := b.groupOffset(group, topic, 0); at != offset {
		t.Errorf("the group is at %d in the end, want %d as before", at, offset)
	}
}

func wantRefusal(t *testing.T, cfg watermillsource.KafkaConfig, wait time.Duration, kind error, names string) {
	t.Helper()
	cfg.StartWait = wait // what waiting cannot mend is not waited for
	src, err := watermillsource.NewKafka(cfg)
	err = runErr(t, src, err)
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), names) {
		t.Errorf("got %v; want %v that names %s", err, kind, names)
	} else if strings.Contains(err.Error(), "secret") {
		t.Errorf("the password is in the error: %v", err)
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

// scramClient is what sarama leaves to its users.
type scramClient struct {
	sha512  bool
	session sasl.Session
	first   []byte
	done    bool
}

// Begin implements sarama.SCRAMClient.
func (c *scramClient) Begin(user, password, _ string) (err error) {
	auth := scram.Auth{User: user, Pass: password}
	mechanism := auth.AsSha256Mechanism()
	if c.sha512 {
		mechanism = auth.AsSha512Mechanism()
	}
	c.session, c.first, err = mechanism.Authenticate(context.Background(), "")
	return err
}

// Step implements sarama.SCRAMClient.
func (c *scramClient) Step(challenge string) (string, error) {
	if challenge == "" {
		return string(c.first), nil
	}
	done, answer, err := c.session.Challenge([]byte(challenge))
	c.done = done
	return string(answer), err
}

// Done implements sarama.SCRAMClient.
func (c *scramClient) Done() bool { return c.done }
