//go:build integration

package cassandra

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestIndexLimitsAreThoseOfTheServer reads the limits of every kind of index, and
// tries that of ordinary ones from both sides. (The test's user is exempt from
// that of storage-attached ones.)
func TestIndexLimitsAreThoseOfTheServer(t *testing.T) {
	type row struct {
		K string            `cql:"k,partition"`
		V string            `cql:"V"`
		W string            `cql:"w"`
		F []string          `cql:"f"`
		M map[string]string `cql:"m,type=map<text, text>"`
		N string            `cql:"n"`
	}
	cfg, s := withTables(t, `CREATE TABLE t (k text PRIMARY KEY, "V" text, w text, f frozen<list<text>>, m map<text, text>, n text);
		CREATE INDEX ON t ("V"); CREATE INDEX ON t (ENTRIES(m));
		CREATE CUSTOM INDEX ON t (w) USING 'StorageAttachedIndex'; CREATE CUSTOM INDEX ON t (FULL(f)) USING 'StorageAttachedIndex';`)
	table := NewTable[row]("t")
	c := checked(t, cfg, s, table)
	target, _ := table.declared()
	b, _ := c.bound(target)
	if want := []int{0, maxIndexedBytes, defaultTermBytes, defaultTermBytes, maxIndexedBytes, 0}; !slices.Equal(b.limits, want) {
		t.Fatalf("got %v, want %v", b.limits, want)
	}
	long := strings.Repeat("x", maxIndexedBytes)
	applied(t, c, 100, time.Now(), table.Insert(row{K: "a", V: long, N: long + long}), table.Upsert(row{K: "a", M: map[string]string{"": long[:60000]}}))
	if err := s.Query(`INSERT INTO t (k, "V") VALUES ('a', ?)`, long+"x").Exec(); err == nil || !refused(err) {
		t.Errorf("one byte more: got %v, want a refusal", err)
	}
	if w := table.Insert(row{K: "a", V: long + "x"}); b.checkIndexed(w.row) == nil {
		t.Error("one byte more passes our check")
	}
}
