//go:build integration

package cassandra

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
)

const ordersSchema = `-- the program's own
CREATE TABLE IF NOT EXISTS orders (shop text, id bigint, total int, PRIMARY KEY (shop, id));`

// TestMigrateFromManyProcessesAtOnce creates everything from four goroutines and
// two further processes, and then again.
func TestMigrateFromManyProcessesAtOnce(t *testing.T) {
	cfg := freshConfig(t)
	cfg.Schema = []string{ordersSchema}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := Migrate(t.Context(), cfg); err != nil {
				t.Error(err)
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMigrateAsAnotherProcess$")
			cmd.Env = append(os.Environ(), migrateKeyspace+"="+cfg.Keyspace)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	wg.Wait()
	full, s := reopen(t, cfg)
	before := tableIDs(t, s, cfg.Keyspace)
	if len(before) != 6 {
		t.Fatalf("there are %d tables: %v", len(before), before)
	}
	if err := Migrate(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if after := tableIDs(t, s, cfg.Keyspace); !maps.Equal(after, before) {
		t.Errorf("a second migration changed tables: %v, %v", before, after)
	}
	if err := canary(t.Context(), s, full); err != nil {
		t.Error(err)
	}
	checked(t, full, s, orders)
}

const migrateKeyspace = "LOCKSTEP_TEST_MIGRATE_KEYSPACE"

// TestMigrateAsAnotherProcess is the other process; alone it has nothing to do.
func TestMigrateAsAnotherProcess(t *testing.T) {
	keyspace := os.Getenv(migrateKeyspace)
	if keyspace == "" {
		return
	}
	cfg := testConfig(t)
	cfg.Keyspace, cfg.Schema = keyspace, []string{ordersSchema}
	if err := Migrate(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

func reopen(t *testing.T, cfg Config) (*Config, *gocql.Session) {
	t.Helper()
	cfg, err := cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	s, err := openSession(t.Context(), &cfg, new(links))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return &cfg, s
}

func tableIDs(t *testing.T, s *gocql.Session, keyspace string) map[string]gocql.UUID {
	t.Helper()
	out := map[string]gocql.UUID{}
	iter := s.Query("SELECT table_name, id FROM system_schema.tables WHERE keyspace_name = ?", keyspace).Iter()
	var name string
	var id gocql.UUID
	for iter.Scan(&name, &id) {
		out[name] = id
	}
	if err := iter.Close(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestMigrateReportsAStatementThatIsRefused(t *testing.T) {
	for _, cql := range []string{"CREATE TABLE orders (shop text)", "CREATE TABEL x"} {
		cfg := freshConfig(t)
		cfg.Schema = []string{cql}
		err := Migrate(t.Context(), cfg)
		if !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), cql) {
			t.Errorf("%s: got %v", cql, err)
		}
	}
}

func TestMigrateWarnsOfOneCopy(t *testing.T) {
	cfg := freshConfig(t)
	var log bytes.Buffer
	cfg.Replication, cfg.Logger = "", slog.New(slog.NewJSONHandler(&log, nil))
	if err := Migrate(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	var line struct{ Level, Msg string }
	if err := json.NewDecoder(&log).Decode(&line); err != nil || line.Level != "WARN" || !strings.Contains(line.Msg, "Config.Replication") {
		t.Errorf("no warning: %+v, %v", line, err)
	}
}

func TestMigrateLeavesAnExistingKeyspaceAndItsTablesAlone(t *testing.T) {
	cfg, s := withTables(t, "CREATE TABLE lockstep_dead (k int PRIMARY KEY); CREATE TABLE orders (k int PRIMARY KEY);")
	cfg.Schema = []string{ordersSchema, "CREATE TABLE orders (k int PRIMARY KEY)"}
	before := tableIDs(t, s, cfg.Keyspace)
	if err := Migrate(t.Context(), *cfg); err != nil {
		t.Fatal(err)
	}
	after := tableIDs(t, s, cfg.Keyspace)
	if after["orders"] != before["orders"] || after["lockstep_dead"] != before["lockstep_dead"] || len(after) != 6 {
		t.Errorf("before %v, after %v", before, after)
	}
}
