package sql

import (
	"context"
	stdsql "database/sql"
	"database/sql/driver"
)

// writers hands out the connections that may write. SQLite has one, and lanes
// queue for it here, where waiting costs nothing and ends with the context.
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
// nothing was changed, unless it is a *commitError.
func (ws *writers) transaction(ctx context.Context, do func(w *writer) error) error {
	var w *writer
	select {
	case w = <-ws.idle:
		defer func() { ws.idle <- w }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := w.connect(ctx, ws.db); err != nil {
		return err
	}
	if _, err := w.conn.ExecContext(ctx, ws.dialect.begin()); err != nil {
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
	if _, err := w.conn.ExecContext(context.Background(), "COMMIT"); err != nil {
		w.rollback()
		return &commitError{err}
	}
	return nil
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
	if _, err := w.conn.ExecContext(context.Background(), "ROLLBACK"); err == nil {
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
// changed. It takes no context: statements are short, and the driver starts a
// goroutine for each that could be interrupted. Callers look at their context
// between statements.
func (w *writer) exec(query string, args ...any) (int64, error) {
	return w.run(statement{query: query}, args)
}

func (w *writer) run(s statement, args []any) (int64, error) {
	st, err := w.prepare(s)
	if err != nil {
		return 0, err
	}
	result, err := st.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// scan runs a query within the transaction and scans its first row.
func (w *writer) scan(query string, args []any, dest ...any) error {
	st, err := w.prepare(statement{query: query})
	if err != nil {
		return err
	}
	return st.QueryRowContext(context.Background(), args...).Scan(dest...)
}

// prepare returns the prepared form of s, made once a connection. Their number
// is bounded by that of the tables.
func (w *writer) prepare(s statement) (*stdsql.Stmt, error) {
	if st := w.prepared[s]; st != nil {
		return st, nil
	}
	st, err := w.conn.PrepareContext(context.Background(), s.text(w.dialect))
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
