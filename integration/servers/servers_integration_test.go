//go:build integration

package servers

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gocql/gocql"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestCassandraKeepsPortAndData takes a node of its own through an orderly stop
// and a kill.
func TestCassandraKeepsPortAndData(t *testing.T) {
	set, err := Start(t.Context(), Options{Cassandra: true, DurableCassandra: true, FastStart: true})
	if err != nil {
		t.Fatal(err)
	}
	dir, processes := placeOf(set)
	t.Cleanup(func() { closeAndCheck(t, set, dir, processes) })
	addr := set.Cassandra.Addr()
	if addr == Cassandra(t) {
		t.Fatalf("both nodes are at %s", addr)
	}
	execCQL(t, addr, "CREATE KEYSPACE lockstep_restart WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	execCQL(t, addr, "CREATE TABLE lockstep_restart.kept (id int PRIMARY KEY)")
	for id, end := range []func(context.Context) error{set.Cassandra.Stop, set.Cassandra.Kill} {
		execCQL(t, addr, "INSERT INTO lockstep_restart.kept (id) VALUES (?)", id)
		restart(t, set.Cassandra, end)
		if got := countRows(t, addr); got != id+1 {
			t.Errorf("%d rows after start number %d, want %d", got, id+2, id+1)
		}
	}
}

func restart(t *testing.T, s *Service, end func(context.Context) error) {
	t.Helper()
	if err := end(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := listens(t.Context(), s.Addr()); err == nil {
		t.Error("it still accepts connections")
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// placeOf returns what close must remove: the directory and the processes, none
// for containers.
func placeOf(set *Set) (string, []*process) {
	p, ok := set.host.(*packages)
	if !ok {
		return "", nil
	}
	return p.dir, p.running
}

func closeAndCheck(t *testing.T, set *Set, dir string, processes []*process) {
	t.Helper()
	if err := errors.Join(set.Close(), set.Close()); err != nil {
		t.Error(err)
	}
	if dir != "" && exists(dir) {
		t.Errorf("%s was left", dir)
	}
	for _, p := range processes {
		if p.current().running() {
			t.Errorf("process %d was left", p.current().cmd.Process.Pid)
		}
	}
}

// TestCassandraAuthRefusesStrangers uses the run's shared node.
func TestCassandraAuthRefusesStrangers(t *testing.T) {
	addr := CassandraAuth(t)
	for password, want := range map[string]bool{AuthPassword: true, "wrong": false} {
		session, err := openSession(addr, gocql.PasswordAuthenticator{Username: AuthUser, Password: password})
		if (err == nil) != want {
			t.Errorf("password %q: got %v", password, err)
		}
		if err == nil {
			session.Close()
		}
	}
}

// TestKafkaMakesNoTopicByItself uses the run's shared broker.
func TestKafkaMakesNoTopicByItself(t *testing.T) {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(Kafka(t), ",")...), kgo.AllowAutoTopicCreation(),
		kgo.UnknownTopicRetries(1), kgo.RecordDeliveryTimeout(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	record := &kgo.Record{Topic: "lockstep-nobody-made-this", Value: []byte("x")}
	if err := client.ProduceSync(t.Context(), record).FirstErr(); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("got %v", err)
	}
	topics, err := kadm.NewClient(client).ListTopics(t.Context())
	if err != nil || topics.Has(record.Topic) {
		t.Errorf("the topic exists, or %v", err)
	}
}

// TestBrokenServerShowsItsLog starts a node on a port that is taken.
func TestBrokenServerShowsItsLog(t *testing.T) {
	p, err := newPackages(t.Context(), Options{Kafka: true, FastStart: true}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	set := &Set{host: p}
	defer func() { closeAndCheck(t, set, p.dir, p.running) }()
	l, err := p.kafka(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp4", l.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, err = Options{StartTimeout: time.Minute}.withDefaults().service(t.Context(), "kafka", l, kafkaReady)
	if err == nil || !strings.Contains(err.Error(), "end of its log") || !strings.Contains(err.Error(), "in use") {
		t.Errorf("the error does not tell: %v", err)
	}
}

func openSession(addr string, login gocql.Authenticator) (*gocql.Session, error) {
	config, err := oneNode(addr, login)
	if err != nil {
		return nil, err
	}
	return config.CreateSession()
}

func withSession(t *testing.T, addr string, use func(*gocql.Session) error) {
	t.Helper()
	session, err := openSession(addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if err := use(session); err != nil {
		t.Fatal(err)
	}
}

func execCQL(t *testing.T, addr, cql string, values ...any) {
	t.Helper()
	withSession(t, addr, func(s *gocql.Session) error { return s.Query(cql, values...).Exec() })
}

func countRows(t *testing.T, addr string) (rows int) {
	t.Helper()
	withSession(t, addr, func(s *gocql.Session) error {
		return s.Query("SELECT COUNT(*) FROM lockstep_restart.kept").Scan(&rows)
	})
	return rows
}
