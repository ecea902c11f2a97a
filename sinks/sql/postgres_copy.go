package sql

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// copyAtLeast rows are worth a COPY, which costs a round trip more than an INSERT.
const copyAtLeast = 100

// copyable tells whether COPY does what INSERT would: it passes by rules, and
// refuses a table with row-level security.
func (t *boundTable) copyable(op op, rows int) bool {
	return op == opInsert && rows >= copyAtLeast && t.copies
}

// copyRows inserts rows by COPY, within the transaction of w: it spares the server
// the arrays, and the executor one row at a time.
func (w *writer) copyRows(ctx context.Context, t *boundTable, run []*Write) error {
	ctx, cancel := w.dialect.bounded(ctx)
	defer cancel()
	next := 0
	rows := pgx.CopyFromFunc(func() ([]any, error) {
		if next == len(run) {
			return nil, nil
		}
		next++
		return run[next-1].values, nil
	})
	err := w.conn.Raw(func(conn any) error {
		c, ok := conn.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("sql: COPY on a %T", conn)
		}
		_, err := c.Conn().CopyFrom(ctx, pgx.Identifier(strings.SplitN(t.name, ".", 2)), t.columns(nil), rows)
		return err
	})
	return overdue(ctx, err)
}
