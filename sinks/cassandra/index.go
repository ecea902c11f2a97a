package cassandra

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
)

// The server refuses a value that is too long for an index on its column. It does
// so when the value is written, which is after the commit, so that it must be
// known before.
const (
	// maxIndexedBytes is the limit of ordinary secondary indexes.
	maxIndexedBytes = 65534
	// defaultTermBytes is the server's default limit of storage-attached ones.
	// Superusers are exempt from it, but nobody should run as one.
	defaultTermBytes = 8 << 10
)

// readIndexes reads how long the values of indexed columns may be.
func (c *catalog) readIndexes(ctx context.Context, t *realTable) error {
	iter := c.query(ctx, "SELECT kind, options FROM system_schema.indexes WHERE keyspace_name = ? AND table_name = ?", c.keyspace, t.name).Iter()
	t.indexed = map[string]int{}
	custom := 0 // the limit of custom indexes, read when there is one
	for {
		var kind string
		var options map[string]string
		if !iter.Scan(&kind, &options) {
			break
		}
		limit := maxIndexedBytes
		if kind == "CUSTOM" {
			if custom == 0 {
				custom = c.termLimit(ctx)
			}
			limit = custom
		}
		column := indexedColumn(options["target"])
		if old, ok := t.indexed[column]; !ok || limit < old {
			t.indexed[column] = limit
		}
	}
	return c.readError(t.name, iter.Close())
}

// termLimit returns the limit of storage-attached indexes, the default where it
// cannot be read.
func (c *catalog) termLimit(ctx context.Context) int {
	limit := maxIndexedBytes
	for _, name := range []string{"sai_string_term_size_fail_threshold", "sai_frozen_term_size_fail_threshold"} {
		var v string
		if err := c.query(ctx, "SELECT value FROM system_views.settings WHERE name = ?", name).Scan(&v); err != nil {
			return defaultTermBytes
		}
		if n, ok := (settings{name: v}).size(name); ok {
			limit = min(limit, n)
		}
	}
	return limit
}

// indexedColumn returns the column of an index target such as v, values(v) or
// full("V").
func indexedColumn(target string) string {
	if _, inner, ok := strings.Cut(target, "("); ok && strings.HasSuffix(inner, ")") {
		target = strings.TrimSuffix(inner, ")")
	}
	if len(target) > 1 && target[0] == '"' {
		return strings.ReplaceAll(target[1:len(target)-1], `""`, `"`)
	}
	return target
}

// limitsFor returns the limits of t's columns, nil if none is indexed.
func (t *realTable) limitsFor(want *target) []int {
	var limits []int
	for i, c := range want.columns {
		if limit, ok := t.indexed[c.name]; ok {
			if limits == nil {
				limits = make([]int, len(want.columns))
			}
			limits[i] = limit
		}
	}
	return limits
}

// checkIndexed refuses a row with a value that is too long for an index.
func (b *boundTarget) checkIndexed(row []byte) error {
	if b.limits == nil {
		return nil
	}
	for i := 0; len(row) > 0; i++ {
		_, v, rest, ok := nextCell(row)
		if !ok {
			return nil
		}
		if n := termBytes(b.columns[i].typ, v); b.limits[i] > 0 && n > b.limits[i] {
			return fmt.Errorf("cassandra: table %q: column %s: a value of %d bytes is too long for the index on it, which takes %d",
				b.name, b.columns[i].name, n, b.limits[i])
		}
		row = rest
	}
	return nil
}

// termBytes returns the length of the longest term that an index may make of a
// value: a collection that is not frozen is indexed by its parts.
func termBytes(t *cqlType, v []byte) int {
	if !t.multiCell() || t.kind == kindUDT || len(v) < 4 {
		return len(v)
	}
	longest, sum := 0, 0
	for i, rest := 0, v[4:]; len(rest) >= 4; i++ {
		n := min(int(binary.BigEndian.Uint32(rest)), len(rest)-4)
		if sum += n; i%len(t.elems) == len(t.elems)-1 { // a map's entry may be indexed whole
			longest, sum = max(longest, sum), 0
		}
		rest = rest[4+n:]
	}
	return longest
}
