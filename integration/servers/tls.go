package servers

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificates are the files of a set's TLS: an authority made for it alone, and
// what its servers show. Both servers read PEM, so that no Java keystore is made.
type certificates struct {
	Authority string // the authority's certificate
	Server    string // key and certificate, for localhost and 127.0.0.1
}

// certificateLife is longer than any run.
const certificateLife = 30 * 24 * time.Hour

// makeCertificates writes the files into dir.
func makeCertificates(dir string) (*certificates, error) {
	authority, authorityKey, err := issue(&x509.Certificate{
		Subject:               pkix.Name{CommonName: "lockstep test authority"},
		KeyUsage:              x509.KeyUsageCertSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}, nil, nil)
	if err != nil {
		return nil, err
	}
	server, serverKey, err := issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "lockstep test server"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.ParseIP(loopback)},
	}, authority, authorityKey)
	if err != nil {
		return nil, err
	}
	key, err := x509.MarshalPKCS8PrivateKey(serverKey)
	if err != nil {
		return nil, fmt.Errorf("servers: making certificates: %w", err)
	}
	c := &certificates{Authority: filepath.Join(dir, "authority.pem"), Server: filepath.Join(dir, "server.pem")}
	if err := writePEM(c.Authority, block("CERTIFICATE", authority.Raw)); err != nil {
		return nil, err
	}
	return c, writePEM(c.Server, block("PRIVATE KEY", key), block("CERTIFICATE", server.Raw), block("CERTIFICATE", authority.Raw))
}

// issue makes a key and a certificate for it, signed by parent, or by itself if
// there is none.
func issue(template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("servers: making certificates: %w", err)
	}
	if parent == nil {
		parent, parentKey = template, key
	}
	template.SerialNumber = new(big.Int).SetInt64(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-time.Hour) // a clock may be set meanwhile
	template.NotAfter = time.Now().Add(certificateLife)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return nil, nil, fmt.Errorf("servers: making certificates: %w", err)
	}
	made, err := x509.ParseCertificate(der)
	return made, key, err
}

func block(kind string, der []byte) *pem.Block { return &pem.Block{Type: kind, Bytes: der} }

func writePEM(path string, blocks ...*pem.Block) error {
	var text bytes.Buffer
	for _, b := range blocks {
		if err := pem.Encode(&text, b); err != nil {
			return err
		}
	}
	return os.WriteFile(path, text.Bytes(), 0o600)
}
