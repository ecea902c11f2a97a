//go:build integration

package cassandra

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/integration/servers"
)

// freshConfig returns settings for a keyspace of the test's own, which does not
// exist yet and is dropped afterwards.
func freshConfig(t *testing.T) Config {
	t.Helper()
	cfg := testConfig(t)
	t.Cleanup(func() { dropKeyspace(t, cfg) })
	return cfg
}

func testConfig(t *testing.T) Config {
	t.Helper()
	return Config{
		Hosts:       []string{servers.Cassandra(t)},
		Keyspace:    fmt.Sprintf("t_%016x", rand.Uint64()),
		Replication: "1",
		StartWait:   -1,
		Logger:      slog.New(slog.DiscardHandler),
	}
}

func dropKeyspace(t *testing.T, cfg Config) {
	full, err := cfg.withDefaults()
	if err != nil {
		t.Error(err)
		return
	}
	err = withSchemaSession(context.Background(), &full, "", func(s *gocql.Session) error {
		return s.Query("DROP KEYSPACE IF EXISTS " + quoteIdentifier(cfg.Keyspace)).Exec()
	})
	if err != nil {
		t.Errorf("dropping the keyspace: %v", err)
	}
}

// migrated returns a keyspace with the sink's tables and those of schema, and a
// session to it.
func migrated(t *testing.T, schema ...string) (*Config, *gocql.Session) {
	t.Helper()
	cfg := freshConfig(t)
	cfg.Schema = schema
	if err := Migrate(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
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

// withTables returns a keyspace with the tables of schema only, and a session to
// it.
func withTables(t *testing.T, schema string) (*Config, *gocql.Session) {
	t.Helper()
	cfg, err := freshConfig(t).withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	statements, err := splitCQL(schema)
	if err != nil {
		t.Fatal(err)
	}
	create := "CREATE KEYSPACE " + quoteIdentifier(cfg.Keyspace) + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
	err = withSchemaSession(t.Context(), &cfg, "", func(s *gocql.Session) error { return runSchema(t.Context(), s, []string{create}) })
	if err != nil {
		t.Fatal(err)
	}
	s, err := openSession(t.Context(), &cfg, new(links))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if err := runSchema(t.Context(), s, statements); err != nil {
		t.Fatal(err)
	}
	return &cfg, s
}

// checked returns a catalog in which the tables were found to be as declared.
func checked(t *testing.T, cfg *Config, s *gocql.Session, tables ...AnyTable) *catalog {
	t.Helper()
	c := newCatalog(s, cfg)
	for _, table := range tables {
		target, err := table.declared()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.check(t.Context(), target); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// applied sends writes as a save would: through a blob, then as one batch per
// write, with timestamps from base.
func applied(t *testing.T, c *catalog, base int64, now time.Time, ws ...Write) {
	t.Helper()
	for i := range ws {
		if err := ws[i].check(defaultMaxWrite); err != nil {
			t.Fatal(err)
		}
	}
	b, _, err := encodeBlob(ws, base, c, blobLimits{chunk: maxChunkBytes, lone: maxChunkBytes / 2, total: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	ms, err := decodeBlob(t.Context(), b.chunks, b.sum, c)
	if err != nil {
		t.Fatal(err)
	}
	for i := range ms {
		batch := c.session.NewBatch(gocql.UnloggedBatch).WithContext(t.Context())
		batch.Entries = entries(ms[i:i+1], now)
		if err := c.session.ExecuteBatch(batch); err != nil {
			t.Fatalf("write %d: %v", i, err)
		}
	}
}
