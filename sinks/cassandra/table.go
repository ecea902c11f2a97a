package cassandra

// Table writes rows of type T to one table. Make it with [NewTable].
type Table[T any] struct {
	target *target
	err    error
}

// Name returns the table's name.
func (t *Table[T]) Name() string { panic("todo") }

func (t *Table[T]) declared() (*target, error) { return t.target, t.err }

// TableOption changes how a table is written.
type TableOption func(*tableOptions)

type tableOptions struct{}

// NewTable describes a table by the tags of T. A fault is reported by Open.
func NewTable[T any](name string, opts ...TableOption) *Table[T] { panic("todo") }

// Insert writes the row of v with an INSERT.
func (t *Table[T]) Insert(v T) Write { panic("todo") }

// Upsert writes the set columns of v with an UPDATE.
func (t *Table[T]) Upsert(v T) Write { panic("todo") }

// Delete deletes the row with v's key.
func (t *Table[T]) Delete(v T) Write { panic("todo") }
