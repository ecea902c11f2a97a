package cassandra

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
)

func TestDSN(t *testing.T) {
	c, err := ParseDSN("cassandra://us%40er:p%3Aa%2Fs%25s@h1,[::1]:9043,10.0.0.3:9044/ks_1?consistency=local&dc=dc1&replication=dc1:3,dc2:2&start_wait=2m&timeout=8s&connect_timeout=3s&tls=insecure")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.Hosts, []string{"h1:9042", "[::1]:9043", "10.0.0.3:9044"}) || c.Keyspace != "ks_1" {
		t.Errorf("got %v, keyspace %s", c.Hosts, c.Keyspace)
	}
	if c.Username != "us@er" || c.Password != "p:a/s%s" {
		t.Errorf("login: %s, %s", c.Username, c.Password)
	}
	if c.Consistency != Local("dc1") || c.Replication != "dc1:3,dc2:2" || c.StartWait != 2*time.Minute || c.Timeout != 8*time.Second || c.ConnectTimeout != 3*time.Second {
		t.Errorf("parameters: %+v, %s, %s, %s, %s", c.Consistency, c.Replication, c.StartWait, c.Timeout, c.ConnectTimeout)
	}
	if c.TLS == nil || !c.TLS.InsecureSkipVerify {
		t.Error("TLS is not as asked for")
	}
	plain, err := ParseDSN("cassandra://localhost/ks")
	if err != nil || plain.TLS != nil || plain.Username != "" || plain.Consistency != Global() || plain.StartWait != 0 {
		t.Errorf("got %+v, %v", plain, err)
	}
}

func TestABadDSNIsRefusedNamingThePartAndNeverThePassword(t *testing.T) {
	const secret = "s3cr3t"
	for dsn, want := range map[string]string{
		"":                                     "must begin with cassandra://",
		"localhost/ks":                         "must begin with cassandra://",
		"postgres://u:s3cr3t@h/ks":             "must begin with cassandra://",
		"cassandra:/h/ks":                      "must begin with cassandra://",
		"cassandra://u:s3cr3t@h":               "keyspace is missing",
		"cassandra://u:s3cr3t@h/":              "keyspace is missing",
		"cassandra://h/a/b":                    "Config.Keyspace",
		"cassandra://h/k%41":                   "Config.Keyspace",
		"cassandra:///ks":                      `host ""`,
		"cassandra://h1,,h2/ks":                `host ""`,
		"cassandra://h:0/ks":                   `port "0"`,
		"cassandra://h:65536/ks":               `port "65536"`,
		"cassandra://h:x/ks":                   `port "x"`,
		"cassandra://h:/ks":                    `port ""`,
		"cassandra://h:+1/ks":                  `port "+1"`,
		"cassandra://[::1/ks":                  "host",
		"cassandra://u:s3cr3t%zz@h/ks":         "percent-encoding",
		"cassandra://u%s3cr3t:x@h/ks":          "percent-encoding",
		"cassandra://u:s3@cr3t@h/ks":           "unencoded @",
		"cassandra://u@h/ks":                   "go together",
		"cassandra://u:@h/ks":                  "go together",
		"cassandra://:s3cr3t@h/ks":             "go together",
		"cassandra://h/ks#f":                   "fragment",
		"cassandra://h/ks?consistencey=local":  `unknown parameter "consistencey"`,
		"cassandra://h/ks?dc=dc1":              "only with consistency=local",
		"cassandra://h/ks?consistency=local":   "parameter dc: required",
		"cassandra://h/ks?consistency=quorum":  "neither global nor local",
		"cassandra://h/ks?tls=yes":             "neither off, on nor insecure",
		"cassandra://h/ks?ca=/x":               "only with tls=on",
		"cassandra://h/ks?tls=on&ca=/none.pem": "/none.pem",
		"cassandra://h/ks?tls=on&key=/x":       "cert and key: they go together",
		"cassandra://h/ks?start_wait=60":       "start_wait",
		"cassandra://h/ks?start_wait=-1s":      "start_wait",
		"cassandra://h/ks?timeout=1s":          "Config.Timeout",
		"cassandra://h/ks?replication=0":       "Config.Replication",
		"cassandra://h/ks?replication=a'b:1":   "Config.Replication",
		"cassandra://h/ks?dc=a&dc=b":           "expected one value",
		"cassandra://h/ks?dc=":                 "expected one value",
		"cassandra://h/ks?a=%zz":               "parameters",
	} {
		c, err := ParseDSN(dsn)
		if !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", dsn, err, want)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the password is in %v", dsn, err)
		}
		if c.Keyspace != "" {
			t.Errorf("%s: half a result", dsn)
		}
	}
}

func TestNoWayOfPrintingShowsThePassword(t *testing.T) {
	c, err := ParseDSN("cassandra://user:s3cr3t@h/ks")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "config", c)
	fmt.Fprintf(&b, "%v %+v %#v %s %v", c, c, c, c, &c)
	if s := b.String(); strings.Contains(s, "s3cr3t") || !strings.Contains(s, "cassandra://user@h:9042/ks") {
		t.Errorf("got %s", s)
	}
}

func TestCertificatesAreLoaded(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	ca, keyFile := write("ca.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", private)
	c, err := ParseDSN("cassandra://h/ks?tls=on&ca=" + ca + "&cert=" + ca + "&key=" + keyFile)
	if err != nil || c.TLS.RootCAs == nil || len(c.TLS.Certificates) != 1 || c.TLS.InsecureSkipVerify {
		t.Errorf("got %+v, %v", c.TLS, err)
	}
	if _, err := ParseDSN("cassandra://h/ks?tls=on&ca=" + keyFile); err == nil || !strings.Contains(err.Error(), "holds no certificate") {
		t.Errorf("got %v", err)
	}
}

func FuzzParseDSN(f *testing.F) {
	f.Add("cassandra://u:p@h1,[::1]:1/ks?consistency=local&dc=a")
	f.Fuzz(func(t *testing.T, dsn string) {
		c, err := ParseDSN(dsn)
		if err != nil {
			return
		}
		if _, err := c.withDefaults(); err != nil || c.Keyspace == "" || len(c.Hosts) == 0 {
			t.Errorf("%q gives %+v, %v", dsn, c.Hosts, err)
		}
	})
}
