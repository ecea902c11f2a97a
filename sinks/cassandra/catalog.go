package cassandra

import (
	"context"
	"sync"

	"github.com/gocql/gocql"
)

// catalog knows the real tables of the sink's keyspace: which targets were
// checked against them, and their identities. It may be used concurrently.
type catalog struct {
	session  *gocql.Session
	keyspace string

	mu     sync.RWMutex
	tables map[*target]*boundTarget
}

// bound returns the checked form of t.
func (c *catalog) bound(t *target) (*boundTarget, bool) { panic("todo") }

// check compares targets with the real tables and binds them. The error lists
// every difference; it wraps framework.ErrConfig.
func (c *catalog) check(ctx context.Context, targets ...*target) error { panic("todo") }

// verify reads the identities of all bound tables anew; a table that was dropped
// or made again since check is an error.
func (c *catalog) verify(ctx context.Context) error { panic("todo") }

// resolve implements resolver against the real schema, read anew: a blob may have
// been written by another version of the program.
func (c *catalog) resolve(ctx context.Context, t *target, id tableID) (*boundTarget, error) {
	panic("todo")
}
