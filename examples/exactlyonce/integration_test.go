//go:build integration

package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gocql/gocql"
	"github.com/google/uuid"
)

// server returns an address from the environment. A missing one fails the test:
// who asks for integration tests wants them run.
func server(t *testing.T, variable string) string {
	t.Helper()
	address := os.Getenv(variable)
	if address == "" {
		t.Fatalf("%s is not set; run the integration tests with make test", variable)
	}
	return address
}

// TestTheDemoSurvivesItsCrashesOnRealServers kills the pipeline's process five
// times, at random moments inside a real log, and compares every row and total.
func TestTheDemoSurvivesItsCrashesOnRealServers(t *testing.T) {
	const events, crashes = 30_000, 5
	kafka, cassandra := server(t, "LOCKSTEP_TEST_KAFKA"), server(t, "LOCKSTEP_TEST_CASSANDRA")
	fresh := strings.ReplaceAll(uuid.NewString(), "-", "")
	args := []string{
		"-events", fmt.Sprint(events), "-crashes", fmt.Sprint(crashes),
		"-brokers", kafka, "-topic", "exactlyonce." + fresh,
		"-sink", fmt.Sprintf("cassandra://%s/exactlyonce_%s", cassandra, fresh),
	}
	var out bytes.Buffer
	err := run(t.Context(), args, &out)
	t.Logf("%v\n%s", args, &out)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("exactly once: %[1]d produced, %[1]d saved, 0 lost, 0 duplicated, alerts match\n", events)
	if !strings.HasSuffix(out.String(), want) {
		t.Errorf("the output does not end with %q", want)
	}
	if n := strings.Count(out.String(), "SIGKILL with"); n != crashes {
		t.Errorf("%d crashes, want %d", n, crashes)
	}
	theQueriesRunOnCassandra(t, cassandra, "exactlyonce_"+fresh)
}

func theQueriesRunOnCassandra(t *testing.T, host, keyspace string) {
	t.Helper()
	script, err := os.ReadFile("queries.cql")
	if err != nil {
		t.Fatal(err)
	}
	cluster := gocql.NewCluster(host)
	cluster.Keyspace, cluster.Timeout = keyspace, time.Minute
	session, err := cluster.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	queries := statements(string(script))
	if len(queries) != 4 {
		t.Fatalf("%d queries, want 4", len(queries))
	}
	for i, query := range queries {
		rows, err := session.Query(query).Iter().SliceMap()
		// The third asks for the positions of another topic than the test's.
		if err != nil || len(rows) == 0 && i != 2 {
			t.Errorf("%s: %d rows, %v", query, len(rows), err)
		}
	}
}
