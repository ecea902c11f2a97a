package servers

import (
	"context"
	_ "embed"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"text/template"
)

var cassandraBundle = bundle{
	name: "cassandra", version: "5.0.8",
	artifacts: []artifact{{"org.apache.cassandra", "cassandra-all", "5.0.8"}},
}

// cassandraAgent measures objects for Cassandra's caches; the node does not
// start without it.
const cassandraAgent = "jamm-0.4.0.jar"

var (
	//go:embed config/cassandra.yaml.tmpl
	cassandraYAMLText string
	//go:embed config/cassandra.jvm
	cassandraJVM []byte
	//go:embed config/cassandra-logback.xml
	cassandraLogging []byte
)

var cassandraYAML = template.Must(template.New("cassandra.yaml").Parse(cassandraYAMLText))

// cassandraKind is what sets a node apart from others.
type cassandraKind struct {
	auth    bool // checks user and password
	durable bool // answers a write only when it is on disk
	tls     bool // has a second port that speaks TLS
	nodes   int  // of its cluster
}

func (k cassandraKind) name() string {
	if k.auth {
		return "cassandra-auth"
	}
	return "cassandra"
}

// cassandraNode is one node in the directory Dir. Seed is host:port of the
// first node's storage port, its own for a cluster of one; Token is its place
// in the ring.
type cassandraNode struct {
	Dir, Host               string
	NativePort, StoragePort int
	Seed, Token             string
	RingDelay               string // milliseconds that a node waits for others to answer
	Authenticator           string
	Authorizer              string
	Heap                    string
	Durable                 bool
	TLSPort                 int           // 0 without TLS
	TLS                     *certificates // nil without TLS
}

// cassandra prepares a cluster of empty nodes. The first is the seed of the others
// and must be up before them.
func (p *packages) cassandra(ctx context.Context, kind cassandraKind) ([]launch, error) {
	jars, err := cassandraBundle.fetch(ctx, p.log)
	if err != nil {
		return nil, err
	}
	nodes, err := p.newNodes(kind)
	if err != nil {
		return nil, err
	}
	launches := make([]launch, 0, len(nodes))
	for _, node := range nodes {
		if err := node.writeFiles(); err != nil {
			return nil, err
		}
		launches = append(launches, launch{
			backend: p.process(node.Dir, node.serverArgs(jars)...),
			addr:    address(node.Host, node.NativePort),
			env:     node.env(),
		})
	}
	return launches, nil
}

// newNodes gives all nodes of a cluster the same ports: drivers know only one.
func (p *packages) newNodes(kind cassandraKind) ([]cassandraNode, error) {
	first, err := p.newNode(kind)
	if err != nil {
		return nil, err
	}
	nodes := []cassandraNode{first}
	for i := 1; i < kind.nodes; i++ {
		node := first
		node.Host = fmt.Sprintf("127.0.0.%d", i+1)
		node.Token = ringToken(i, kind.nodes)
		if node.Dir, err = p.serverDir(fmt.Sprintf("%s-%d", kind.name(), i+1)); err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

// ringToken is the place of node i among n on the ring of 2^64 tokens. The first
// is at 0.
func ringToken(i, n int) string {
	return strconv.FormatInt(int64(math.MaxUint64/uint64(n)*uint64(i)), 10)
}

// env tells where the node speaks TLS, if it does.
func (n cassandraNode) env() []string {
	if n.TLS == nil {
		return nil
	}
	return []string{envCassandraTLS + "=" + address(n.Host, n.TLSPort), envAuthority + "=" + n.TLS.Authority}
}

func (p *packages) newNode(kind cassandraKind) (cassandraNode, error) {
	node := cassandraNode{Host: loopback, Token: "0", Authenticator: "AllowAllAuthenticator", Authorizer: "AllowAllAuthorizer", Heap: "1g", Durable: kind.durable, RingDelay: "100"}
	if kind.nodes > 1 {
		node.RingDelay = "5000" // they start together, on a machine that is busy with that
	}
	if kind.auth {
		node.Authenticator, node.Authorizer, node.Heap = "PasswordAuthenticator", "CassandraAuthorizer", "512m"
	}
	dir, err := p.serverDir(kind.name())
	if err != nil {
		return node, err
	}
	ports, err := freePorts(3)
	if err != nil {
		return node, err
	}
	node.Dir, node.NativePort, node.StoragePort = dir, ports[0], ports[1]
	node.Seed = address(node.Host, node.StoragePort)
	if kind.tls {
		node.TLS, node.TLSPort = p.tls, ports[2]
	}
	return node, nil
}

func (n cassandraNode) writeFiles() error {
	if err := writeFrom(cassandraYAML, n, n.file("cassandra.yaml")); err != nil {
		return err
	}
	if err := os.WriteFile(n.file("cassandra.jvm"), cassandraJVM, 0o644); err != nil {
		return err
	}
	return os.WriteFile(n.file("logback.xml"), cassandraLogging, 0o644)
}

func (n cassandraNode) file(name string) string { return filepath.Join(n.Dir, name) }

func (n cassandraNode) serverArgs(jars string) []string {
	return []string{
		"-cp", filepath.Join(jars, "*"),
		"-javaagent:" + filepath.Join(jars, cassandraAgent),
		"-Xms" + n.Heap, "-Xmx" + n.Heap,
		"-Dcassandra.config=file://" + n.file("cassandra.yaml"),
		"-Dcassandra.storagedir=" + n.Dir,
		"-Dcassandra.initial_token=" + n.Token,
		"-Dcassandra.ring_delay_ms=" + n.RingDelay,
		"-Dlogback.configurationFile=" + n.file("logback.xml"),
		"-Djava.io.tmpdir=" + n.file("tmp"),
		"-Djna.tmpdir=" + n.file("tmp"),
		"@" + n.file("cassandra.jvm"),
		"org.apache.cassandra.service.CassandraDaemon",
	}
}
