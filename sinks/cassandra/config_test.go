package cassandra

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
)

func TestConfigDefaults(t *testing.T) {
	hosts := []string{"h"}
	c, err := Config{Keyspace: "ks", Hosts: hosts}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if c.Hosts[0] != "h:9042" || hosts[0] != "h" || c.StartWait != time.Minute || c.Timeout != 10*time.Second || c.ConnectTimeout != 5*time.Second || c.Logger == nil {
		t.Errorf("got %+v; the caller's hosts are %v", c, hosts)
	}
	if c, err := (Config{Keyspace: "ks"}).withDefaults(); err != nil || c.Hosts[0] != "127.0.0.1:9042" {
		t.Errorf("got %v, %v", c.Hosts, err)
	}
}

func TestConfigFaultsNameTheField(t *testing.T) {
	type own struct {
		K string `cql:"k,partition"`
	}
	for field, c := range map[string]Config{
		"Keyspace":       {},
		"Hosts":          {Keyspace: "ks", Hosts: []string{"a b"}},
		"Username":       {Keyspace: "ks", Username: "u"},
		"Replication":    {Keyspace: "ks", Replication: "dc1"},
		"Timeout":        {Keyspace: "ks", Timeout: time.Second},
		"ConnectTimeout": {Keyspace: "ks", ConnectTimeout: -1},
		"MaxWriteBytes":  {Keyspace: "ks", MaxWriteBytes: -1},
		"Schema":         {Keyspace: "ks", Schema: []string{"INSERT '"}},
		"Tables":         {Keyspace: "ks", Tables: []AnyTable{notes, nil}},
	} {
		if _, err := c.withDefaults(); !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), "Config."+field+":") {
			t.Errorf("%s: got %v", field, err)
		}
	}
	for want, table := range map[string]AnyTable{"no field is tagged": NewTable[struct{ A string }]("t"), "lockstep_": NewTable[own]("lockstep_ledger")} {
		if _, err := (Config{Keyspace: "ks", Tables: []AnyTable{table}}).withDefaults(); !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestReplication(t *testing.T) {
	for in, want := range map[string]string{
		"":              "{'class': 'NetworkTopologyStrategy', 'replication_factor': '1'}",
		"3":             "{'class': 'NetworkTopologyStrategy', 'replication_factor': '3'}",
		"dc1:3, dc-2:2": "{'class': 'NetworkTopologyStrategy', 'dc1': '3', 'dc-2': '2'}",
	} {
		if got, err := replicationMap(in); err != nil || got != want {
			t.Errorf("%q: got %s, %v", in, got, err)
		}
	}
}

func TestScopes(t *testing.T) {
	g, l := Global(), Local("dc1")
	if g.String() != "global" || l.String() != "local:dc1" || (Consistency{}) != g {
		t.Errorf("got %s, %s", g, l)
	}
	// Everything of one scope: mixing would allow two owners.
	if g.quorum() != gocql.Quorum || g.serial() != gocql.Serial || g.serialRead() != gocql.Consistency(gocql.Serial) || g.monitor() != gocql.Quorum {
		t.Error("global uses something else")
	}
	if l.quorum() != gocql.LocalQuorum || l.serial() != gocql.LocalSerial || l.serialRead() != gocql.Consistency(gocql.LocalSerial) || l.monitor() != gocql.LocalOne {
		t.Error("local uses something else")
	}
}
