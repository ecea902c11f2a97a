//go:build integration

package cassandra

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/integration/servers"
)

// opened opens a session as Open does, and fails the test if that takes longer
// than any wrong setting may.
func opened(t *testing.T, cfg Config) error {
	t.Helper()
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	start := time.Now()
	s, err := openSession(t.Context(), &cfg, new(links))
	if err == nil {
		s.Close()
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %s to say %v", took, err)
	}
	return err
}

func TestWhatWaitingCannotMendIsReportedAtOnce(t *testing.T) {
	auth := servers.CassandraAuth(t)
	for name, tc := range map[string]struct {
		dsn  string
		want []string
	}{
		"wrong password":   {fmt.Sprintf("cassandra://%s:wrong-secret@%s/system", servers.AuthUser, auth), []string{auth, "Username and Password"}},
		"unknown user":     {fmt.Sprintf("cassandra://nobody:wrong-secret@%s/system", auth), []string{"nobody", "Username and Password"}},
		"no login":         {fmt.Sprintf("cassandra://%s/system", auth), []string{"wants a login"}},
		"missing keyspace": {fmt.Sprintf("cassandra://%s/nothing_here", servers.Cassandra(t)), []string{`keyspace "nothing_here" does not exist`, "Migrate"}},
		"unknown DC":       {fmt.Sprintf("cassandra://%s/system?consistency=local&dc=mars", servers.Cassandra(t)), []string{`data centre "mars"`, "datacenter1"}},
		"TLS to plain":     {fmt.Sprintf("cassandra://%s/system?tls=on", servers.Cassandra(t)), []string{"TLS"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := ParseDSN(tc.dsn)
			if err != nil {
				t.Fatal(err)
			}
			err = opened(t, cfg)
			if !errors.Is(err, framework.ErrConfig) {
				t.Fatalf("got %v, want a configuration error", err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\ndoes not contain %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "wrong-secret") {
				t.Errorf("the password is in the error: %v", err)
			}
		})
	}
}

func TestLoginAndLocalConsistencyWork(t *testing.T) {
	for _, dsn := range []string{
		fmt.Sprintf("cassandra://%s:%s@%s/system", servers.AuthUser, servers.AuthPassword, servers.CassandraAuth(t)),
		fmt.Sprintf("cassandra://%s/system?consistency=local&dc=datacenter1", servers.Cassandra(t)),
	} {
		cfg, err := ParseDSN(dsn)
		if err != nil {
			t.Fatal(err)
		}
		if err := opened(t, cfg); err != nil {
			t.Error(err)
		}
	}
}

// TestPreflightOfARealServer reads the settings that a save depends on.
func TestPreflightOfARealServer(t *testing.T) {
	cfg, s := withTables(t, "")
	got, err := preflight(t.Context(), s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if versionLess(got.version, "4.1") || got.maxMutation != defaultMaxMutation || got.maxWrite != defaultMaxWrite || got.maxChunk != maxChunkBytes {
		t.Errorf("got %+v", got)
	}
	all, err := readSettings(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"max_mutation_size", "paxos_variant", "user_timestamps_enabled"} {
		if all[name] == "" {
			t.Errorf("the server has no setting %s any more", name)
		}
	}
}

// TestOpenWaitsForAClusterThatIsNotUpYetAndRecovers opens before there is a
// server, and goes on when the server dies and comes back.
func TestOpenWaitsForAClusterThatIsNotUpYetAndRecovers(t *testing.T) {
	set, err := servers.Start(t.Context(), servers.Options{Cassandra: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	})
	node := set.Cassandra
	cfg := testConfig(t)
	cfg.Hosts, cfg.Keyspace, cfg.StartWait = []string{node.Addr()}, "system", 2*time.Minute
	stop(t, node)
	session := make(chan *gocql.Session, 1)
	go func() {
		full, _ := cfg.withDefaults()
		s, err := openSession(t.Context(), &full, new(links))
		if err != nil {
			t.Error(err)
		}
		session <- s
	}()
	start(t, node)
	s := <-session
	if s == nil {
		t.FailNow()
	}
	defer s.Close()
	for round := range 2 {
		stop(t, node)
		if err := s.Query("SELECT key FROM system.local").Exec(); err == nil {
			t.Fatal("a stopped server answers")
		}
		start(t, node)
		began := time.Now()
		for s.Query("SELECT key FROM system.local").Exec() != nil {
			if time.Since(began) > 30*time.Second {
				t.Fatalf("round %d: the session does not recover", round)
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Logf("round %d: recovered %s after the server was up", round, time.Since(began).Round(time.Millisecond))
	}
}

func stop(t *testing.T, s *servers.Service) {
	t.Helper()
	if err := s.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T, s *servers.Service) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
}
