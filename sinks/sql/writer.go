package sql

import (
	"context"
	stdsql "database/sql"
	"database/sql/driver"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
)

// writers hands out the connections that may write. SQLite has one, and lanes
// queue for it here, where waiting costs nothing and ends with the context.
// PostgreSQL has several.
type writers struct {
	dialect dialect
	db      *stdsql.DB
	idle    chan *writer
}

// writer is one connection with the statements prepared on it.
type writer struct {
	dialect  dialect
	conn     *stdsql.Conn // nil: not connected yet, or thrown away
	prepared map[statement]*stdsql.Stmt
}

func newWriters(d dialect, p pools) *writers {
	ws := &writers{dialect: d, db: p.write, idle: make(chan *writer, p.writers)}
	for range p.writers {
		ws.idle <- &writer{dialect: d}
	}
	return ws
}

// transaction runs do in a transaction that writes. Any error of it means that
// nothing was changed, unless it is a *commitError. A transaction that only met
// others, or lost its connection, is repeated as it is: do may run several times.
func (ws *writers) transaction(ctx context.Context, do func(w *writer) error) error {
	var w *writer
	select {
	case w = <-ws.idle:
		defer func() { ws.idle <- w }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for try := 1; ; try++ {
		err := w.transaction(ctx, ws.db, do)
		if err == nil || try == transactionTries || !ws.dialect.transient(err) {
			return err
		}
		if pause(ctx, try) != nil {
			return err
		}
	}
}

// How often a transaction is tried, and how long it pauses in between: the first
// pause is the least, and each is about twice the one before.
const (
	transactionTries = 6
	firstPause       = 20 * time.Millisecond
)

// pause waits before the next try, by chance long enough not to meet the same
// others again.
func pause(ctx context.Context, try int) error {
	most := firstPause << try
	t := time.NewTimer(most/2 + rand.N(most/2))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func (w *writer) transaction(ctx context.Context, db *stdsql.DB, do func(w *writer) error) error {
	if err := w.connect(ctx, db); err != nil {
		return err
	}
	if _, err := w.conn.ExecContext(ctx, w.dialect.begin()); err != nil {
		w.rollback() // the transaction may have begun as the context ended
		return err
	}
	if err := do(w); err != nil {
		w.rollback()
		return err
	}
	if err := ctx.Err(); err != nil {
		w.rollback()
		return err
	}
	// From here on the context has no say: a COMMIT is not to be cut short.
	if err := w.command(context.WithoutCancel(ctx), "COMMIT"); err != nil {
		w.rollback()
		return &commitError{err}
	}
	return nil
}

// command runs a statement that is not worth preparing.
func (w *writer) command(ctx context.Context, statement string) error {
	ctx, cancel := w.dialect.bounded(ctx)
	defer cancel()
	_, err := w.conn.ExecContext(ctx, statement)
	return overdue(ctx, err)
}

// overdue gives an error its reason where that is the bound of one statement.
func overdue(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && errors.Is(context.Cause(ctx), framework.ErrUnavailable) {
		return context.Cause(ctx)
	}
	return err
}

func (w *writer) connect(ctx context.Context, db *stdsql.DB) error {
	if w.conn != nil {
		return nil
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	w.conn, w.prepared = conn, map[statement]*stdsql.Stmt{}
	return nil
}

// rollback ends a transaction, or else the connection, which does the same.
func (w *writer) rollback() {
	if err := w.command(context.Background(), "ROLLBACK"); err == nil {
		return
	}
	for _, st := range w.prepared {
		_ = st.Close() // goes with the connection
	}
	_ = w.conn.Raw(func(any) error { return driver.ErrBadConn }) // tells the pool not to keep it
	_ = w.conn.Close()
	w.conn, w.prepared = nil, nil
}

// exec runs a statement within the transaction and returns how many rows it
// changed.
func (w *writer) exec(ctx context.Context, query string, args ...any) (int64, error) {
	return w.run(ctx, statement{query: inDialect(w.dialect, query)}, args)
}

func (w *writer) run(ctx context.Context, s statement, args []any) (int64, error) {
	ctx, cancel := w.dialect.bounded(ctx)
	defer cancel()
	st, err := w.prepare(ctx, s)
	if err != nil {
		return 0, overdue(ctx, err)
	}
	result, err := st.ExecContext(ctx, args...)
	if err != nil {
		return 0, overdue(ctx, err)
	}
	return result.RowsAffected()
}

// scan runs a query within the transaction and scans its first row.
func (w *writer) scan(ctx context.Context, query string, args []any, dest ...any) error {
	ctx, cancel := w.dialect.bounded(ctx)
	defer cancel()
	st, err := w.prepare(ctx, statement{query: inDialect(w.dialect, query)})
	if err != nil {
		return overdue(ctx, err)
	}
	return overdue(ctx, st.QueryRowContext(ctx, args...).Scan(dest...))
}

// prepare returns the prepared form of s, made once a connection. Their number
// is bounded by that of the tables.
func (w *writer) prepare(ctx context.Context, s statement) (*stdsql.Stmt, error) {
	if st := w.prepared[s]; st != nil {
		return st, nil
	}
	st, err := w.conn.PrepareContext(ctx, s.text())
	if err != nil {
		return nil, err
	}
	w.prepared[s] = st
	return st, nil
}

// close closes all connections; none may be in use.
func (ws *writers) close() error {
	var first error
	for range cap(ws.idle) {
		w := <-ws.idle
		if w.conn == nil {
			continue
		}
		for _, st := range w.prepared {
			_ = st.Close() // goes with the connection
		}
		if err := w.conn.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}
