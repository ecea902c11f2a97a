package cassandra

import (
	"errors"
	"fmt"
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
// hands to the sink. Make it with the methods of [Table]; the zero Write is
// refused. It is small and immutable; copies share the encoded bytes.
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

// check returns what is wrong with w, if anything. maxWrite is in bytes.
func (w *Write) check(maxWrite int) error {
	switch {
	case w.err != nil:
		return w.err
	case w.target == nil:
		return errors.New("cassandra: an empty Write; make it with the methods of a Table")
	case w.size() > maxWrite:
		return fmt.Errorf("cassandra: table %q: a write of %d bytes exceeds the limit of %d (Config.MaxWriteBytes, and a quarter of the server's max_mutation_size)",
			w.target.name, w.size(), maxWrite)
	case w.op == opUpdate && writesNothing(w.row, w.target.keys()):
		return fmt.Errorf("cassandra: table %q: an Upsert with no column set writes nothing; use Insert for a row that is only a key", w.target.name)
	}
	return nil
}

// Check returns the encoded size of w in bytes, or why no table would take it:
// what [Sink.Check] finds with a default Config, except for what only the
// keyspace's own tables tell. So a test without a cluster refuses what the sink
// refuses; the memory sink asks for it.
func (w Write) Check() (int, error) {
	if err := w.check(defaultMaxWrite); err != nil {
		return 0, err
	}
	return w.size(), nil
}

// writesNothing reports whether all cells after the key are unset.
func writesNothing(row []byte, keys int) bool {
	for i := 0; len(row) > 0; i++ {
		head, _, rest, ok := nextCell(row)
		if !ok || (i >= keys && head != headUnset) {
			return false
		}
		row = rest
	}
	return true
}

// mutation is a write on its way to its table, with its timestamp. Its row is
// well formed: it was made by a plan, or checked when a blob was decoded.
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
func (m *mutation) partition() []byte {
	rest := m.row
	for range m.target.partition {
		_, _, rest, _ = nextCell(rest)
	}
	return m.row[:len(m.row)-len(rest)]
}

// value is a bound value that is already in CQL's binary form; nil is null. The
// driver takes it by pointer, which costs no allocation.
type value []byte

// MarshalCQL returns the bytes as they are.
func (v *value) MarshalCQL(gocql.TypeInfo) ([]byte, error) { return *v, nil }

// entries binds mutations for a batch. Expiries become the time left at now.
func entries(ms []mutation, now time.Time) []gocql.BatchEntry {
	total := 0
	for i := range ms {
		total += len(ms[i].target.columns) + 2 // timestamp and TTL
	}
	b := entryBinder{
		args:    make([]any, 0, total),
		values:  make([]value, 0, total),
		numbers: make([]byte, 0, 12*len(ms)),
		now:     now.Unix(),
	}
	out := make([]gocql.BatchEntry, len(ms))
	for i := range ms {
		out[i] = b.bind(&ms[i])
	}
	return out
}

// entryBinder carves the arguments of many statements out of few slices, which
// must be large enough never to move.
type entryBinder struct {
	args    []any
	values  []value
	numbers []byte
	now     int64 // Unix seconds
}

// bind follows the order of the marks in the statements of boundTarget.
func (b *entryBinder) bind(m *mutation) gocql.BatchEntry {
	start := len(b.args)
	k := m.target.keys()
	ttl, expired := m.timeLeft(b.now)
	switch m.op {
	case opInsert:
		b.cells(m.row, expired, k)
		b.times(m.timestamp, ttl)
	case opUpdate:
		b.times(m.timestamp, ttl)
		keys := len(b.args)
		b.cells(m.row, expired, k)
		// The WHERE clause comes last: turn keys, others into others, keys.
		rotate(b.args[keys:], k)
	case opDelete:
		b.number(m.timestamp, 8)
		b.cells(m.row, false, k)
	}
	return gocql.BatchEntry{Stmt: m.target.cql[m.op], Args: b.args[start:len(b.args):len(b.args)], Idempotent: true}
}

// timeLeft returns the TTL to write with, in seconds, 0 for none. A write that
// has expired is to write nulls, so that its older versions stay hidden; its
// row marker gets the shortest life there is.
func (m *mutation) timeLeft(now int64) (ttl int64, expired bool) {
	switch {
	case m.expires == 0:
		return 0, false
	case m.expires <= now:
		return 1, true
	default:
		return m.expires - now, false
	}
}

// cells binds every cell of row; expired turns the values after the key to null.
func (b *entryBinder) cells(row []byte, expired bool, keys int) {
	for i := 0; len(row) > 0; i++ {
		head, v, rest, _ := nextCell(row)
		row = rest
		switch {
		case head == headUnset:
			b.args = append(b.args, gocql.UnsetValue)
		case head == headClear || (expired && i >= keys):
			b.value(nil)
		default:
			b.value(v)
		}
	}
}

func (b *entryBinder) value(v []byte) {
	b.values = append(b.values, v)
	b.args = append(b.args, &b.values[len(b.values)-1])
}

// times binds USING TIMESTAMP ? AND TTL ?. A TTL of 0 means none.
func (b *entryBinder) times(timestamp, ttl int64) {
	b.number(timestamp, 8)
	b.number(ttl, 4)
}

func (b *entryBinder) number(n int64, size int) {
	start := len(b.numbers)
	b.numbers = appendInteger(b.numbers, n, size)
	b.value(b.numbers[start:])
}

// rotate moves the first k elements to the end.
func rotate(args []any, k int) {
	var buf [8]any
	head := append(buf[:0], args[:k]...)
	copy(args, args[k:])
	copy(args[len(args)-len(head):], head)
}
