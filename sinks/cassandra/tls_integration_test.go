//go:build integration && tls

package cassandra

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/integration/servers"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// tlsSetting is a way to connect that is wrong, and what the error must be and say.
type tlsSetting struct {
	dsn  string
	edit func(*Config)
	is   error // nil: framework.ErrConfig
	want []string
}

// A node that wants TLS and a login saves for who has both, and tells others which
// setting is wrong without waiting. What was saved stays as it was.
func TestTLSAndLoginSaveAndEachWrongSettingIsNamed(t *testing.T) {
	const login = servers.AuthUser + ":" + servers.AuthPassword + "@"
	node, ca := servers.CassandraTLS(t), servers.Authority(t)
	keyspace := fmt.Sprintf("tls_%s", strings.ToLower(rand.Text()[:12]))
	dsn := func(user, host, query string) string {
		return fmt.Sprintf("cassandra://%s%s/%s?start_wait=2m%s", user, host, keyspace, query)
	}
	right := tlsConfig(t, dsn(login, node, "&tls=on&ca="+ca))
	if err := Migrate(t.Context(), right); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dropKeyspace(t, right) })
	saveThrough(t, right, 7)

	for name, s := range map[string]tlsSetting{
		"another authority":        {dsn: dsn(login, node, "&tls=on&ca="+otherAuthority(t)), want: []string{"TLS and its certificates", node}},
		"the system's authorities": {dsn: dsn(login, node, "&tls=on"), want: []string{"TLS and its certificates", node}},
		"another host name": {dsn: dsn(login, node, "&tls=on&ca="+ca), edit: func(c *Config) { c.TLS.ServerName = "db.example.org" },
			want: []string{"TLS and its certificates", "db.example.org"}},
		"wrong password":      {dsn: dsn(servers.AuthUser+":wrong-secret@", node, "&tls=on&ca="+ca), want: []string{"Username and Password"}},
		"unknown user":        {dsn: dsn("nobody:wrong-secret@", node, "&tls=on&ca="+ca), want: []string{"Username and Password", "nobody"}},
		"no login":            {dsn: dsn("", node, "&tls=on&ca="+ca), want: []string{"set Username and Password"}},
		"TLS where it is not": {dsn: dsn(login, servers.CassandraAuth(t), "&tls=on&ca="+ca), want: []string{"TLS"}},
		// The node only hangs up, as one that is just starting may: it is waited for.
		"plain where TLS is": {dsn: dsn(login, node, ""), edit: func(c *Config) { c.StartWait = time.Second },
			is: framework.ErrUnavailable, want: []string{node, "Config.TLS"}},
		"certificate unproven": {dsn: dsn("nobody:wrong-secret@", node, "&tls=insecure"), want: []string{"Username and Password"}},
	} {
		t.Run(name, func(t *testing.T) { s.isRefused(t) })
	}
	if got := positionThrough(t, right); got != 7 {
		t.Errorf("the position is %d, want 7", got)
	}
	// Certificates that are not verified are the only ones that need no authority.
	if got := positionThrough(t, tlsConfig(t, dsn(login, node, "&tls=insecure"))); got != 7 {
		t.Errorf("without verification the position is %d, want 7", got)
	}
}

func tlsConfig(t *testing.T, dsn string) Config {
	t.Helper()
	cfg, err := ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Logger = slog.New(slog.DiscardHandler)
	return cfg
}

func (s tlsSetting) isRefused(t *testing.T) {
	cfg := tlsConfig(t, s.dsn)
	if s.edit != nil {
		s.edit(&cfg)
	}
	began := time.Now()
	sink, err := Open(t.Context(), cfg)
	if err == nil {
		_ = sink.Close(t.Context())
		t.Fatal("it was let in")
	}
	t.Logf("after %s: %v", time.Since(began).Round(time.Millisecond), err)
	if is := orError(s.is, framework.ErrConfig); !errors.Is(err, is) {
		t.Errorf("got %v, want %v", err, is)
	}
	for _, want := range s.want {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\ndoes not contain %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "wrong-secret") {
		t.Errorf("the password is in the error: %v", err)
	}
}

func orError(err, otherwise error) error {
	if err == nil {
		return otherwise
	}
	return err
}

// saveThrough saves a batch that only moves the position.
func saveThrough(t *testing.T, cfg Config, to int64) {
	t.Helper()
	withSink(t, cfg, func(s *Sink) {
		c, err := s.Claim(t.Context(), "tls", offsetstore.TopicPartition{Topic: "in"}, offsetstore.At(0))
		if err != nil {
			t.Fatal(err)
		}
		from, next := framework.Progress{Position: offsetstore.At(0)}, framework.Progress{Position: offsetstore.At(to)}
		if err := c.Save(t.Context(), &framework.Batch[Write]{From: from, To: next}); err != nil {
			t.Fatal(err)
		}
		if err := c.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func positionThrough(t *testing.T, cfg Config) (offset int64) {
	t.Helper()
	withSink(t, cfg, func(s *Sink) {
		positions, err := s.Positions(t.Context(), "tls")
		if err != nil || len(positions) != 1 {
			t.Fatalf("got positions %v, %v; want one", positions, err)
		}
		offset = positions[0].Position.Offset
	})
	return offset
}

func withSink(t *testing.T, cfg Config, use func(*Sink)) {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	use(s)
}

// otherAuthority writes the certificate of an authority that has signed nothing.
func otherAuthority(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "stranger"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "stranger.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
