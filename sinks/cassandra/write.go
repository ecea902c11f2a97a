package cassandra

import (
	"time"

	"github.com/gocql/gocql"
)

// op is what a write does to its row. The numbers are part of the blob's format.
type op uint8

const (
	opInsert op = 1 // INSERT: cells and row marker
	opUpdate op = 2 // UPDATE: cells only
	opDelete op = 3 // DELETE of the row
)

// Write is one write to one row of one table, already encoded: what a pipeline
// hands to the sink. Make it with the methods of [Table]. It is small and
// immutable; copies share the encoded bytes.
type Write struct {
	target  *target
	row     []byte
	expires int64 // Unix seconds, 0: never
	err     error // why it could not be encoded; reported by Check
	op      op
}

// writeOverhead is what a write is counted with beside its row's bytes.
const writeOverhead = 32

// size returns the encoded size in bytes that batches and limits count.
func (w *Write) size() int { return len(w.row) + writeOverhead }

// mutation is a write on its way to its table, with its timestamp.
type mutation struct {
	target    *boundTarget
	row       []byte
	timestamp int64 // microseconds
	expires   int64 // Unix seconds, 0: never
	op        op
}

// size is the size of the write it came from.
func (m *mutation) size() int { return len(m.row) + writeOverhead }

// partition returns bytes that are equal for two mutations of one target exactly
// when they belong to one Cassandra partition. They alias the row.
func (m *mutation) partition() []byte { panic("todo") }

// entries binds mutations for a batch. Expiries become the time left at now.
func entries(ms []mutation, now time.Time) []gocql.BatchEntry { panic("todo") }
