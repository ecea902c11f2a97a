//go:build integration

package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gocql/gocql"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/integration/servers"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/cassandra"
	"github.com/lockstep-stream/lockstep/sinks/sql"
)

// site is a database and a topic of the test's own, on real servers.
type site struct {
	t     *testing.T
	dsn   string
	topic string
	admin *kadm.Client
	cl    *kgo.Client
}

// newSite makes a topic of two partitions, with ten records in the first.
func newSite(t *testing.T, dsn string) *site {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(servers.Kafka(t), ",")...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	s := &site{t, dsn, "operate-" + strings.ToLower(rand.Text()), kadm.NewClient(cl), cl}
	s.createTopic()
	t.Cleanup(func() { s.admin.DeleteTopic(context.Background(), s.topic) })
	for i := range 10 {
		r := &kgo.Record{Topic: s.topic, Key: []byte("k"), Value: fmt.Appendf(nil, "value %d", i), Timestamp: second.Add(time.Duration(i) * time.Second)}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *site) createTopic() {
	s.t.Helper()
	forever := "-1" // the records are dated long ago, and would expire while the test runs
	if _, err := s.admin.CreateTopic(s.t.Context(), 2, 1, map[string]*string{"retention.ms": &forever}, s.topic); err != nil {
		s.t.Fatal(err)
	}
}

// run runs a command, and checks its exit code and what it says.
func (s *site) run(code int, says []string, args ...string) string {
	s.t.Helper()
	args = append(args, "--sink", s.dsn)
	switch args[0] {
	case "lag", "reset", "skip":
		args = append(args, "--brokers", servers.Kafka(s.t))
	}
	got, stdout, stderr := lockstep(s.t, args...)
	if got != code {
		s.t.Fatalf("%q: exit %d, want %d\n%s\n%s", args, got, code, stdout, stderr)
	}
	for _, text := range says {
		if !strings.Contains(stdout+stderr, text) {
			s.t.Errorf("%q: it does not say %q:\n%s%s", args, text, stdout, stderr)
		}
	}
	return stdout
}

// operate works with every command on what a pipeline has left.
func operate[W any](s *site, open func() (framework.Sink[W], error)) {
	t := s.t
	s.run(exitOK, []string{"the database is ready"}, "migrate")
	sink, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close(context.Background())
	leave(s, sink)

	p := []string{"--pipeline", "p"}
	with := func(args ...string) []string { return append(args, p...) }
	tp := s.topic + "/0"
	s.run(exitOK, []string{"0..10", "PIPELINE"}, with("lag")...)
	s.run(exitOK, nil, with("flush")...)
	if out := s.run(exitOK, nil, with("positions", "--output", "json")...); strings.Count(out, `"pending":false`) != 2 {
		t.Errorf("after a flush the positions are %s", out)
	}
	s.run(exitOK, []string{"OPERATOR  KEY  TOTAL\nsum       ann  12\n"}, with("totals", "--combine", "sum")...)
	s.run(exitOK, []string{"not a number"}, with("dead-letters", "list")...)
	s.run(exitOK, []string{"record    " + tp + "@1\n", "value     value 1\n"}, with("dead-letters", "show", "--partition", "0", "--offset", "1")...)
	s.run(exitOK, []string{"1 dead letter dropped"}, with("dead-letters", "drop", "--partition", "0", "--offset", "1", "--apply")...)
	s.run(exitOK, []string{"there are no dead letters"}, with("dead-letters", "list")...)

	s.run(exitRefused, []string{"Kafka knows no consumer group", "--fence"}, with("skip", "--partition", "0", "--offset", "4", "--apply")...)
	s.run(exitOK, []string{"value   value 4\n", tp + ": moved from 4 to 5\n"}, with("skip", "--partition", "0", "--offset", "4", "--apply", "--fence")...)
	s.run(exitOK, []string{tp + ": moved from 5 to 7\n"}, with("reset", "--to", "2026-05-01T12:00:07Z", "--partition", "0", "--apply")...)
	s.run(exitRefused, []string{"which holds 0..10"}, with("reset", "--to", "offset:11", "--partition", "0", "--apply")...)
	s.run(exitOK, []string{tp + ": moved from 7 to 0, totals dropped\n"}, with("reset", "--to", "earliest", "--apply", "--fence", "--drop-state")...)
	s.run(exitOK, []string{"no totals are stored there"}, with("totals")...)
	s.recreate()
	s.run(exitOK, []string{"topic recreated"}, with("lag")...)
	s.run(exitOK, []string{"The topic was deleted and created again", tp + ": moved from 0 to 0\n"}, with("reset", "--to", "earliest", "--apply")...)
	if out := s.run(exitOK, nil, with("lag")...); strings.Contains(out, "recreated") {
		t.Errorf("after the reset the position is still of the old topic:\n%s", out)
	}
}

// leave saves what a pipeline would, in two partitions, and does not give them up.
func leave[W any](s *site, sink framework.Sink[W]) {
	s.t.Helper()
	ctx := s.t.Context()
	for partition, to := range []int64{4, 0} {
		from := offsetstore.Position{LeaderEpoch: offsetstore.NoLeaderEpoch, TopicID: s.topicID()}
		c, err := sink.Claim(ctx, "p", offsetstore.TopicPartition{Topic: s.topic, Partition: int32(partition)}, from)
		if err != nil {
			s.t.Fatal(err)
		}
		b := &framework.Batch[W]{From: c.Progress(), To: c.Progress()}
		b.To.Position.Offset = to
		b.State = []framework.StateEntry{{StateKey: framework.StateKey{Operator: "sum", Key: []byte(`"ann"`)}, Value: fmt.Append(nil, 5+2*partition)}}
		if partition == 0 {
			b.DeadLetters = []framework.DeadLetter{{Offset: 1, Stage: "map", Error: "not a number", Attempts: 1, FailedAt: second, Timestamp: second, Value: []byte("value 1")}}
		}
		if err := c.Save(ctx, b); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *site) topicID() offsetstore.TopicID {
	s.t.Helper()
	details, err := s.admin.ListTopics(s.t.Context(), s.topic)
	if err != nil || details[s.topic].Err != nil {
		s.t.Fatal(err, details[s.topic].Err)
	}
	return offsetstore.TopicID(details[s.topic].ID)
}

// recreate deletes the topic and makes it again, which a broker does not do at once.
func (s *site) recreate() {
	s.t.Helper()
	if _, err := s.admin.DeleteTopic(s.t.Context(), s.topic); err != nil {
		s.t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		_, err := s.admin.CreateTopic(s.t.Context(), 2, 1, nil, s.topic)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatal(err)
		}
	}
}

func TestTheCommandOnCassandra(t *testing.T) {
	keyspace := "operate_" + strings.ToLower(rand.Text())
	dsn := fmt.Sprintf("cassandra://%s/%s?replication=1", servers.Cassandra(t), keyspace)
	t.Cleanup(func() {
		cluster := gocql.NewCluster(servers.Cassandra(t))
		cluster.Timeout = time.Minute
		session, err := cluster.CreateSession()
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		if err := session.Query("DROP KEYSPACE " + keyspace).Exec(); err != nil {
			t.Error(err)
		}
	})
	operate(newSite(t, dsn), func() (framework.Sink[cassandra.Write], error) {
		cfg, err := cassandra.ParseDSN(dsn)
		if err != nil {
			return nil, err
		}
		return cassandra.Open(context.Background(), cfg)
	})
}

func TestTheCommandOnPostgres(t *testing.T) {
	admin, err := pgx.Connect(t.Context(), postgresDSN(t, servers.PostgresDatabase))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.Background())
	database := "operate_" + strings.ToLower(rand.Text())
	if _, err := admin.Exec(t.Context(), "CREATE DATABASE "+database); err != nil {
		t.Fatal(err)
	}
	defer admin.Exec(context.Background(), "DROP DATABASE "+database+" WITH (FORCE)")
	dsn := postgresDSN(t, database)
	operate(newSite(t, dsn), func() (framework.Sink[sql.Write], error) {
		return sql.Open(context.Background(), sql.Config{DSN: dsn})
	})
}

func postgresDSN(t *testing.T, database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(servers.PostgresUser, servers.PostgresPassword),
		Host: servers.Postgres(t), Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return u.String()
}
