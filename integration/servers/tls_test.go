package servers

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"
)

func TestCertificatesAreTrustedForLoopbackOnly(t *testing.T) {
	c, err := makeCertificates(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(c.Server, c.Server)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(c.Authority)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		t.Fatal("the authority's file holds no certificate")
	}
	for host, want := range map[string]bool{"127.0.0.1": true, "localhost": true, "127.0.0.2": false, "example.org": false} {
		_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host})
		if (err == nil) != want {
			t.Errorf("%s: got %v", host, err)
		}
	}
}
