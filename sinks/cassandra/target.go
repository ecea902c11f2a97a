package cassandra

import (
	"strings"
)

// role says what a column is for in its table's primary key, in the order of a
// row.
type role uint8

const (
	rolePartition role = iota
	roleClustering
	roleRegular
)

// String returns the role as system_schema.columns spells it.
func (r role) String() string {
	return [...]string{"partition_key", "clustering", "regular"}[r]
}

// column is one column of a target. Its type is in the spelling of cqlType.String.
type column struct {
	name string
	typ  *cqlType
	role role
}

// target is one table as the code knows it, without a keyspace. Its columns are
// ordered: partition key in key order, clustering key in key order, the others
// as declared. So the cells of the partition key are a prefix of every row.
// It is immutable and may be shared by sinks.
type target struct {
	name       string
	columns    []column
	partition  int // the first so many columns are the partition key
	clustering int // the next so many are the clustering key
}

// keys returns the number of primary key columns.
func (t *target) keys() int { return t.partition + t.clustering }

// tableID is the identity Cassandra gives a table when it is created
// (system_schema.tables.id). A table that was dropped and made again has another.
type tableID [16]byte

// anyTable stands for whatever table has the name.
var anyTable tableID

// boundTarget is a target found in a keyspace, in which every column was seen to
// exist with its type and role.
type boundTarget struct {
	*target
	keyspace string
	id       tableID
	cql      [opDelete + 1]string // the statement of each op
	limits   []int                // bytes a column's value may have for its index, 0: no index; nil: none has
}

// bind makes the statements of t for a keyspace.
func (t *target) bind(keyspace string, id tableID) *boundTarget {
	b := &boundTarget{target: t, keyspace: keyspace, id: id}
	table := quoteIdentifier(keyspace) + "." + quoteIdentifier(t.name)
	b.cql[opInsert] = t.insertCQL(table)
	b.cql[opUpdate] = t.updateCQL(table)
	b.cql[opDelete] = "DELETE FROM " + table + " USING TIMESTAMP ? WHERE " + equalities(t.columns[:t.keys()], " AND ")
	return b
}

func (t *target) insertCQL(table string) string {
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i] = quoteIdentifier(c.name)
	}
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(names)), ", ")
	return "INSERT INTO " + table + " (" + strings.Join(names, ", ") + ") VALUES (" + marks + ") USING TIMESTAMP ? AND TTL ?"
}

// updateCQL returns "" for a table that has nothing but its key, which no UPDATE
// can write.
func (t *target) updateCQL(table string) string {
	k := t.keys()
	if k == len(t.columns) {
		return ""
	}
	return "UPDATE " + table + " USING TIMESTAMP ? AND TTL ? SET " + equalities(t.columns[k:], ", ") +
		" WHERE " + equalities(t.columns[:k], " AND ")
}

func equalities(cs []column, sep string) string {
	parts := make([]string, len(cs))
	for i, c := range cs {
		parts[i] = quoteIdentifier(c.name) + " = ?"
	}
	return strings.Join(parts, sep)
}

// quoteIdentifier always quotes, so that reserved words and capitals are safe.
func quoteIdentifier(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// roleOf returns the role of the column at position i.
func (t *target) roleOf(i int) role {
	switch {
	case i < t.partition:
		return rolePartition
	case i < t.keys():
		return roleClustering
	default:
		return roleRegular
	}
}
