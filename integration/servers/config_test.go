package servers

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
)

func TestKafkaPropertiesBindLoopbackOnly(t *testing.T) {
	text := render(t, kafkaProperties, kafkaBroker{Dir: "/d", Host: loopback, BrokerPort: 1, ControllerPort: 2})
	for _, want := range []string{
		"listeners=PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2\n",
		"advertised.listeners=PLAINTEXT://127.0.0.1:1\n",
		"auto.create.topics.enable=false\n",
		"group.initial.rebalance.delay.ms=0\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestTLSAddsListenersAndTakesNoneAway(t *testing.T) {
	files := &certificates{Authority: "/a.pem", Server: "/s.pem"}
	text := render(t, kafkaProperties, kafkaBroker{Dir: "/d", Host: loopback, BrokerPort: 1, ControllerPort: 2, TLS: files, TLSPort: 3, SASLPort: 4, SASLTLSPort: 5})
	for _, want := range []string{
		"listeners=PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2,SSL://127.0.0.1:3,SASL_PLAINTEXT://127.0.0.1:4,SASL_SSL://127.0.0.1:5\n",
		"advertised.listeners=PLAINTEXT://127.0.0.1:1,SSL://127.0.0.1:3,SASL_PLAINTEXT://127.0.0.1:4,SASL_SSL://127.0.0.1:5\n",
		"ssl.keystore.location=/s.pem\n",
		"listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_" + KafkaUser,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	node := cassandraNode{Host: loopback, TLS: files, TLSPort: 7}
	text = render(t, cassandraYAML, node)
	for _, want := range []string{"native_transport_port_ssl: 7\n", "  keystore: /s.pem\n", "\nseed_provider:"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestCassandraNodesDifferInKind(t *testing.T) {
	p := &packages{dir: t.TempDir()}
	for want, kind := range map[string]cassandraKind{
		"authenticator: AllowAllAuthenticator\n": {},
		"commitlog_sync: periodic\n":             {},
		"authenticator: PasswordAuthenticator\n": {auth: true},
		"commitlog_sync: batch\n":                {durable: true},
	} {
		node, err := p.newNode(kind)
		if err != nil {
			t.Fatal(err)
		}
		text := render(t, cassandraYAML, node)
		if !strings.Contains(text, want) || !strings.Contains(text, "paxos_variant: v2\n") || !strings.Contains(text, "rpc_address: 127.0.0.1\n") {
			t.Errorf("%+v: no %q in\n%s", kind, want, text)
		}
	}
}

func TestNodesOfAClusterShareTheirPortsAndTheRing(t *testing.T) {
	p := &packages{dir: t.TempDir()}
	nodes, err := p.newNodes(cassandraKind{nodes: 3})
	if err != nil {
		t.Fatal(err)
	}
	want := []struct{ host, token string }{{"127.0.0.1", "0"}, {"127.0.0.2", "6148914691236517205"}, {"127.0.0.3", "-6148914691236517206"}}
	if len(nodes) != len(want) {
		t.Fatalf("%d nodes, want %d", len(nodes), len(want))
	}
	dirs := map[string]bool{}
	for i, n := range nodes {
		if n.Host != want[i].host || n.Token != want[i].token || n.NativePort != nodes[0].NativePort || n.Seed != nodes[0].Seed {
			t.Errorf("node %d is %+v", i, n)
		}
		dirs[n.Dir] = true
	}
	if len(dirs) != len(want) {
		t.Errorf("directories are shared: %v", dirs)
	}
}

func TestClusterIDIsOneThatKafkaTakes(t *testing.T) {
	id := clusterID()
	raw, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil || len(raw) != 16 || id[0] == '-' || id == clusterID() {
		t.Errorf("got %q, %v", id, err)
	}
}

func TestPomNamesEveryArtifact(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pom.xml")
	if err := kafkaBundle.writePom(path, "/jars"); err != nil {
		t.Fatal(err)
	}
	pom, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range kafkaBundle.artifacts {
		if !strings.Contains(string(pom), "<artifactId>"+a.Name+"</artifactId><version>"+a.Version+"</version>") {
			t.Errorf("no %s in\n%s", a.Name, pom)
		}
	}
}

func render(t *testing.T, text *template.Template, values any) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rendered")
	if err := writeFrom(text, values, path); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}
