package cassandra

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
)

// ParseDSN makes a Config from a URL:
//
//	cassandra://user:password@host1,host2:9042/keyspace?consistency=local&dc=dc1&tls=on
//
// User, password and ports may be left out; reserved characters in user and
// password are percent-encoded. The parameters are
//
//	consistency      global (default) or local
//	dc               the data centre of consistency=local
//	tls              off (default), on, or insecure (certificates not verified)
//	ca               file with the authorities to trust, PEM; needs tls
//	cert, key        files with our own certificate, PEM; need tls
//	replication      as Config.Replication
//	start_wait       as Config.StartWait, for example 30s or 2m
//	timeout          as Config.Timeout
//	connect_timeout  as Config.ConnectTimeout
//
// Anything else is an error that names the part at fault, wraps
// framework.ErrConfig, and never contains the password.
func ParseDSN(dsn string) (Config, error) {
	c, err := parseDSN(dsn)
	if err == nil {
		_, err = c.withDefaults()
	}
	if err != nil {
		return Config{}, fmt.Errorf("cassandra: data source name: %w: %w", framework.ErrConfig, err)
	}
	return c, nil
}

// parseDSN takes the parts by hand: url.Parse does not know lists of hosts with
// ports, and its errors quote the whole input, the password with it.
func parseDSN(dsn string) (Config, error) {
	scheme, rest, ok := strings.Cut(dsn, "://")
	if !ok || scheme != "cassandra" {
		return Config{}, errors.New("it must begin with cassandra://")
	}
	if strings.Contains(rest, "#") {
		return Config{}, errors.New("it has a fragment; write # in a user or password as %23")
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, keyspace, ok := strings.Cut(rest, "/")
	if !ok || keyspace == "" {
		return Config{}, errors.New("the keyspace is missing; write it after the hosts, as in cassandra://host/keyspace")
	}
	c := Config{Keyspace: keyspace}
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		if err := c.parseUser(authority[:at]); err != nil {
			return Config{}, err
		}
		authority = authority[at+1:]
	}
	for h := range strings.SplitSeq(authority, ",") {
		full, err := hostPort(h)
		if err != nil {
			return Config{}, err
		}
		c.Hosts = append(c.Hosts, full)
	}
	return c, c.parseQuery(query)
}

func (c *Config) parseUser(s string) error {
	user, password, ok := strings.Cut(s, ":")
	var err1, err2 error
	c.Username, err1 = url.PathUnescape(user)
	c.Password, err2 = url.PathUnescape(password)
	switch {
	case err1 != nil || err2 != nil: // the errors would quote the input
		return errors.New("bad percent-encoding in the user or password; write % as %25")
	case strings.ContainsAny(s, "@/"):
		return errors.New("unencoded @ or / in the user or password; write them as %40 and %2F")
	case !ok || c.Username == "" || c.Password == "":
		return errors.New("user and password go together; one of them is missing")
	}
	return nil
}

func (c *Config) parseQuery(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return fmt.Errorf("parameters: %w", err)
	}
	one := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(dsnParameters, name) {
			return fmt.Errorf("unknown parameter %q; known are %s", name, strings.Join(dsnParameters, ", "))
		}
		if len(values[name]) > 1 || values[name][0] == "" {
			return fmt.Errorf("parameter %s: expected one value, found %q", name, values[name])
		}
		one[name] = values[name][0]
	}
	c.Replication = one["replication"]
	return errors.Join(c.parseConsistency(one), c.parseTLS(one),
		parseDuration(one, "start_wait", &c.StartWait),
		parseDuration(one, "timeout", &c.Timeout),
		parseDuration(one, "connect_timeout", &c.ConnectTimeout))
}

var dsnParameters = []string{"ca", "cert", "connect_timeout", "consistency", "dc", "key", "replication", "start_wait", "timeout", "tls"}

func (c *Config) parseConsistency(p map[string]string) error {
	dc := p["dc"]
	switch consistency := p["consistency"]; {
	case consistency == "local" && dc == "":
		return errors.New("parameter dc: required with consistency=local")
	case consistency == "local":
		c.Consistency = Local(dc)
	case consistency != "" && consistency != "global":
		return fmt.Errorf("parameter consistency: %q is neither global nor local", consistency)
	case dc != "":
		return errors.New("parameter dc: only with consistency=local")
	}
	return nil
}

func (c *Config) parseTLS(p map[string]string) error {
	switch mode := p["tls"]; mode {
	case "", "off":
		for _, name := range []string{"ca", "cert", "key"} {
			if p[name] != "" {
				return fmt.Errorf("parameter %s: only with tls=on", name)
			}
		}
		return nil
	case "on", "insecure":
		c.TLS = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: mode == "insecure"}
	default:
		return fmt.Errorf("parameter tls: %q is neither off, on nor insecure", mode)
	}
	return errors.Join(c.loadAuthorities(p["ca"]), c.loadCertificate(p["cert"], p["key"]))
}

func (c *Config) loadAuthorities(file string) error {
	if file == "" {
		return nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("parameter ca: %w", err)
	}
	c.TLS.RootCAs = x509.NewCertPool()
	if !c.TLS.RootCAs.AppendCertsFromPEM(pem) {
		return fmt.Errorf("parameter ca: %s holds no certificate", file)
	}
	return nil
}

func (c *Config) loadCertificate(cert, key string) error {
	if cert == "" && key == "" {
		return nil
	}
	if cert == "" || key == "" {
		return errors.New("parameters cert and key: they go together")
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("parameters cert and key: %w", err)
	}
	c.TLS.Certificates = []tls.Certificate{pair}
	return nil
}

func parseDuration(p map[string]string, name string, to *time.Duration) error {
	if p[name] == "" {
		return nil
	}
	d, err := time.ParseDuration(p[name])
	if err != nil || d <= 0 {
		return fmt.Errorf("parameter %s: %q is not a duration above zero, such as 30s", name, p[name])
	}
	*to = d
	return nil
}
