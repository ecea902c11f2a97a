package cassandra

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
)

// Table writes rows of type T to one table. Make it with [NewTable], once, and
// name it in [Config].Tables. Its methods may be called concurrently, are pure,
// and never fail: a value that cannot be written gives a Write whose fault is
// reported when the sink checks it, so that the record can be blamed.
type Table[T any] struct {
	name string
	plan *plan
	err  error // why T cannot be written
	ttl  time.Duration
	pool sync.Pool // of *scratch[T]
}

// TableOption changes how a table is written.
type TableOption func(*tableOptions)

type tableOptions struct{ ttl time.Duration }

// WithTTL lets every inserted or upserted value expire d after the write was
// made; d is rounded up to whole seconds. [Write.ExpireAt] overrides it. The
// table itself must have no default_time_to_live.
func WithTTL(d time.Duration) TableOption { return func(o *tableOptions) { o.ttl = d } }

// NewTable describes a table by the cql tags of struct T; see the package
// documentation for the tags and types. The name is without keyspace, and as the
// schema has it: capitals count. A fault in T or an option is reported by Open.
func NewTable[T any](name string, opts ...TableOption) *Table[T] {
	var o tableOptions
	for _, opt := range opts {
		opt(&o)
	}
	t := &Table[T]{name: name, ttl: o.ttl}
	if t.plan, t.err = compileTable(name, reflect.TypeFor[T](), o); t.err != nil {
		t.err = fmt.Errorf("cassandra: table %q: %w: %w", name, framework.ErrConfig, t.err)
		return t
	}
	t.pool.New = func() any { return newScratch[T](t.plan) }
	return t
}

func compileTable(name string, t reflect.Type, o tableOptions) (*plan, error) {
	if err := validIdentifier(name); err != nil {
		return nil, err
	}
	if o.ttl < 0 {
		return nil, fmt.Errorf("WithTTL(%s): a time to live cannot be negative", o.ttl)
	}
	return compile(name, t)
}

// validIdentifier refuses names that no table or keyspace can have.
func validIdentifier(name string) error {
	if name == "" || len(name) > 48 {
		return fmt.Errorf("name %q: Cassandra allows 1 to 48 characters", name)
	}
	if strings.ContainsFunc(name, func(r rune) bool { return !inName(r) }) {
		return fmt.Errorf("name %q: Cassandra allows letters, digits and underscores only", name)
	}
	return nil
}

// Name returns the table's name.
func (t *Table[T]) Name() string { return t.name }

func (t *Table[T]) declared() (*target, error) {
	if t.err != nil {
		return nil, t.err
	}
	return t.plan.target, nil
}

// Insert writes the row v as a whole, with CQL's INSERT: the row exists from
// then on, even if all its other columns are null. Unset columns keep what they
// have, so an existing row is updated.
func (t *Table[T]) Insert(v T) Write { return t.write(opInsert, v) }

// Upsert writes the set columns of the row v, with CQL's UPDATE. It differs from
// Insert in leaving no mark of the row itself: the row exists as long as one of
// its columns beside the key has a value, and an expiry concerns these values
// only. At least one column must be set or cleared.
func (t *Table[T]) Upsert(v T) Write { return t.write(opUpdate, v) }

// Delete removes the row with v's key; the other fields of v are ignored. It
// costs a tombstone.
func (t *Table[T]) Delete(v T) Write { return t.write(opDelete, v) }

func (t *Table[T]) write(o op, v T) Write {
	if t.err != nil {
		return Write{err: t.err}
	}
	s := t.pool.Get().(*scratch[T])
	s.value = v
	row, err := t.plan.encode(s.buf[:0], s.fields, o)
	w := Write{target: t.plan.target, op: o}
	if err != nil {
		w.err = fmt.Errorf("cassandra: table %q: %w", t.name, err)
	} else {
		w.row, s.buf = bytes.Clone(row), row
	}
	var zero T
	s.value = zero // keep nothing of the caller's alive
	if cap(s.buf) <= maxScratch {
		t.pool.Put(s)
	}
	if t.ttl > 0 && o != opDelete {
		return w.ExpireAt(time.Now().Add(t.ttl))
	}
	return w
}

// maxScratch bounds the buffers that are kept for reuse, in bytes.
const maxScratch = 64 << 10

// scratch is where one value is encoded: the value itself at a fixed place, so
// that its fields are looked up once and not for every row.
type scratch[T any] struct {
	value  T
	fields []reflect.Value
	buf    []byte
}

func newScratch[T any](p *plan) *scratch[T] {
	s := &scratch[T]{fields: make([]reflect.Value, len(p.fields))}
	v := reflect.ValueOf(&s.value).Elem()
	for i, f := range p.fields {
		s.fields[i] = v.FieldByIndex(f.index)
	}
	return s
}

// ExpireAt returns a copy of w whose values expire at t, rounded up to a whole
// second; the zero time means never. The moment is fixed here: a save that is
// applied late, or twice, does not prolong it. A write that is applied after its
// expiry writes nulls with its own timestamp, which hides older values as the
// expired ones would have. A Delete cannot expire.
func (w Write) ExpireAt(t time.Time) Write {
	switch {
	case w.err != nil || t.IsZero():
		w.expires = 0
	case w.op == opDelete:
		w.err = fmt.Errorf("cassandra: table %q: a Delete cannot expire", w.target.name)
	case t.Unix() <= 0 || t.Unix() > maxExpiry:
		w.err = fmt.Errorf("cassandra: table %q: expiry at %s: Cassandra allows until %s", w.target.name,
			t.UTC().Format(time.RFC3339), time.Unix(maxExpiry, 0).UTC().Format(time.RFC3339))
	default:
		w.expires = t.Unix()
		if t.Nanosecond() > 0 {
			w.expires++
		}
	}
	return w
}

// maxExpiry is the last expiry, in Unix seconds, that every server accepts: they
// store it as a signed 32-bit number, and get the time left from us, so that a
// day is kept for clocks that differ.
const maxExpiry = math.MaxInt32 - 86400
