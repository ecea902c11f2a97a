//go:build integration

package cassandra

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
)

type order struct {
	Shop  string `cql:"shop,partition"`
	ID    int64  `cql:"id,clustering"`
	Total int32  `cql:"total"`
}

var orders = NewTable[order]("orders")

func TestATableThatDiffersIsRefusedAndTheErrorSaysHow(t *testing.T) {
	cfg, s := withTables(t, `CREATE TYPE address (street text, number bigint, extra text); CREATE TYPE longer (street text, number int, extra text, more int);`)
	c := newCatalog(s, cfg)
	for name, tc := range map[string]struct {
		cql   string
		table AnyTable
		want  []string // in the error; none: accepted
	}{
		"the same":            {cql: "CREATE TABLE orders (shop text, id bigint, total int, PRIMARY KEY (shop, id))"},
		"more columns":        {cql: "CREATE TABLE orders (shop text, id bigint, total int, note text, PRIMARY KEY (shop, id))"},
		"reversed order":      {cql: "CREATE TABLE orders (shop text, id bigint, total int, PRIMARY KEY (shop, id)) WITH CLUSTERING ORDER BY (id DESC)"},
		"missing":             {want: []string{"orders", "does not exist"}},
		"no column":           {cql: "CREATE TABLE orders (shop text, id bigint, PRIMARY KEY (shop, id))", want: []string{"column total: expected int, found no such column"}},
		"other type":          {cql: "CREATE TABLE orders (shop text, id bigint, total bigint, PRIMARY KEY (shop, id))", want: []string{"column total: expected type int, found bigint"}},
		"other role":          {cql: "CREATE TABLE orders (shop text, id bigint, total int, PRIMARY KEY (id, shop))", want: []string{"column shop: expected key role partition_key, found clustering", "column id: expected key role clustering, found partition_key"}},
		"static":              {cql: "CREATE TABLE orders (shop text, id bigint, total int static, PRIMARY KEY (shop, id))", want: []string{"column total: expected key role regular, found static"}},
		"key without field":   {cql: "CREATE TABLE orders (shop text, id bigint, line int, total int, PRIMARY KEY (shop, id, line))", want: []string{"column line: expected a field"}},
		"default TTL":         {cql: "CREATE TABLE orders (shop text, id bigint, total int, PRIMARY KEY (shop, id)) WITH default_time_to_live = 60", want: []string{"default_time_to_live, found 60", "WithTTL"}},
		"gc_grace below hour": {cql: "CREATE TABLE orders (shop text, id bigint, total int, PRIMARY KEY (shop, id)) WITH gc_grace_seconds = 3599", want: []string{"gc_grace_seconds of at least 3600, found 3599"}},
		"gc_grace of an hour": {cql: "CREATE TABLE orders (shop text, id bigint, total int, PRIMARY KEY (shop, id)) WITH gc_grace_seconds = 3600"},
		"thawed collection": {cql: "CREATE TABLE orders (k text PRIMARY KEY, v set<text>)", table: NewTable[struct {
			K string   `cql:"k,partition"`
			V []string `cql:"v,type=frozen<set<text>>"`
		}]("orders"), want: []string{"column v: expected type frozen<set<text>>, found set<text>"}},
		"user type differs": {cql: "CREATE TABLE orders (k text PRIMARY KEY, v frozen<address>)", table: NewTable[struct {
			K string  `cql:"k,partition"`
			V address `cql:"v,type=frozen<address>"`
		}]("orders"), want: []string{"column v: type address: field number: expected int, found bigint"}},
		"user type is longer": {cql: "CREATE TABLE orders (k text PRIMARY KEY, v frozen<list<longer>>)", table: NewTable[struct {
			K string    `cql:"k,partition"`
			V []address `cql:"v,type=frozen<list<longer>>"`
		}]("orders")},
	} {
		t.Run(name, func(t *testing.T) {
			runCQL(t, s, "DROP TABLE IF EXISTS orders")
			if tc.cql != "" {
				runCQL(t, s, tc.cql)
			}
			if tc.table == nil {
				tc.table = orders
			}
			target, err := tc.table.declared()
			if err != nil {
				t.Fatal(err)
			}
			err = c.check(t.Context(), target)
			if len(tc.want) == 0 && err != nil {
				t.Fatal(err)
			}
			if len(tc.want) > 0 && !errors.Is(err, framework.ErrConfig) {
				t.Fatalf("got %v, want a configuration error", err)
			}
			for _, want := range append(tc.want, "") {
				if err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%v\ndoes not contain %q", err, want)
				}
			}
		})
	}
}

func runCQL(t *testing.T, s *gocql.Session, cql string) {
	t.Helper()
	if err := runStatement(t.Context(), s, cql); err != nil {
		t.Fatal(err)
	}
}

func TestShortGCGraceIsWarnedOf(t *testing.T) {
	cfg, s := withTables(t, "CREATE TABLE orders (shop text, id bigint, total int, PRIMARY KEY (shop, id)) WITH gc_grace_seconds = 7200;")
	var log bytes.Buffer
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	checked(t, cfg, s, orders)
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "gc_grace=2h0m0s") {
		t.Errorf("no warning: %s", &log)
	}
}

func TestATableMadeAgainIsRefusedByVerifyAndByStoredSaves(t *testing.T) {
	const create = "CREATE TABLE orders (shop text, id bigint, total int, PRIMARY KEY (shop, id))"
	cfg, s := withTables(t, create)
	c := checked(t, cfg, s, orders)
	b, _, err := encodeBlob([]Write{orders.Insert(order{"a", 1, 2})}, 100, c, testLimits)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A save of another version of the program: found by the real tables.
	if _, err := decodeBlob(t.Context(), b.chunks, b.sum, newCatalog(s, cfg)); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ cql, want string }{
		{"ALTER TABLE orders DROP total", "column total"},
		{"DROP TABLE orders", "does not exist any more"},
		{create, "dropped and created again"},
	} {
		runCQL(t, s, step.cql)
		_, err := decodeBlob(t.Context(), b.chunks, b.sum, c)
		var schema *SchemaError
		if !errors.As(err, &schema) || !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), step.want) {
			t.Errorf("after %s: got %v, want %q", step.cql, err, step.want)
		}
	}
	if err := c.verify(t.Context()); !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), "created again") {
		t.Errorf("verify: got %v", err)
	}
}

func TestReservedWordsAndCapitalsWorkAsNames(t *testing.T) {
	cfg, s := withTables(t, `CREATE TABLE "Select" ("token" text, "from" int, "Where" text, PRIMARY KEY ("token", "from"));`)
	table := NewTable[struct {
		Token string `cql:"token,partition"`
		From  int32  `cql:"from,clustering"`
		Where string `cql:"Where"`
	}]("Select")
	c := checked(t, cfg, s, table)
	target, _ := table.declared()
	row := struct {
		Token string `cql:"token,partition"`
		From  int32  `cql:"from,clustering"`
		Where string `cql:"Where"`
	}{"a", 1, "b"}
	applied(t, c, 100, time.Now(), table.Insert(row), table.Upsert(row), table.Delete(row))
	if b, ok := c.bound(target); !ok || b.keyspace != cfg.Keyspace {
		t.Errorf("bound: %v %v", b, ok)
	}
}
