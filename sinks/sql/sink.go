package sql

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/lockstep-stream/lockstep/framework"
)

// Sink saves writes, state, dead letters and positions in one database
// transaction. Make it with [Open].
type Sink struct {
	config   Config
	dialect  dialect
	pools    pools
	writers  *writers
	declared map[*layout]bool                        // the layouts of Config.Tables
	tables   atomic.Pointer[map[*layout]*boundTable] // nil until ready has compared them

	closing   context.Context // ends with Close
	close     context.CancelCauseFunc
	calls     sync.RWMutex // held for reading by every call, so that Close can wait
	closeOnce sync.Once
	closeErr  error

	readyMu sync.Mutex // held while the tables are compared
}

// The powers of the sink.
var (
	_ framework.Sink[Write]       = (*Sink)(nil)
	_ framework.PositionLister    = (*Sink)(nil)
	_ framework.DeadLetterLister  = (*Sink)(nil)
	_ framework.DeadLetterDropper = (*Sink)(nil)
	_ framework.StateLister       = (*Sink)(nil)
	_ framework.Resetter          = (*Sink)(nil)
	_ framework.Migrator          = (*Sink)(nil)
	_ framework.HealthChecker     = (*Sink)(nil)
)

func newSink(c Config, d dialect, p pools) *Sink {
	s := &Sink{config: c, dialect: d, pools: p, writers: newWriters(d, p), declared: map[*layout]bool{}}
	for _, t := range c.Tables {
		s.declared[t.shape()] = true
	}
	s.closing, s.close = context.WithCancelCause(context.Background())
	return s
}

// Guarantee promises effectively exactly once, with state and dead letters.
func (s *Sink) Guarantee() framework.Guarantee {
	return framework.Guarantee{Level: framework.ExactlyOnce, State: true, DeadLetters: true}
}

// Check refuses a write that could not be encoded, that is NULL where the column
// may not be, that exceeds Config.MaxWriteBytes, or whose table is not among
// Config.Tables, and returns the encoded size of any other in bytes.
func (s *Sink) Check(w Write) (int, error) {
	if err := s.check(&w); err != nil {
		return 0, fmt.Errorf("sql: %w", err)
	}
	return w.size, nil
}

func (s *Sink) check(w *Write) error {
	if err := w.check(s.config.MaxWriteBytes); err != nil {
		return err
	}
	b, err := s.bound(w.table)
	if err != nil || b == nil {
		return err
	}
	return b.check(w)
}

// bound returns the table as the database has it, nil before it was compared.
func (s *Sink) bound(l *layout) (*boundTable, error) {
	if !s.declared[l] {
		return nil, fmt.Errorf("table %q: %w: it is not among Config.Tables", l.name, framework.ErrConfig)
	}
	if tables := s.tables.Load(); tables != nil {
		return (*tables)[l], nil
	}
	return nil, nil
}

// enter begins a call: its context also ends when the sink is closed, with
// ErrClosed as the cause. Close waits until leave was called.
func (s *Sink) enter(ctx context.Context) (_ context.Context, leave func(), err error) {
	s.calls.RLock()
	if s.closing.Err() != nil {
		s.calls.RUnlock()
		return nil, nil, framework.ErrClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.closing, func() { cancel(framework.ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		s.calls.RUnlock()
	}, nil
}

// why gives an error of a call its meaning: closed, cancelled, or a kind of the
// framework's.
func (s *Sink) why(ctx context.Context, err error) error {
	if errors.Is(err, framework.ErrUnknown) {
		return err // whatever else has happened
	}
	// A driver may tell a call that was cut short by a broken connection.
	cut := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || s.dialect.transient(err)
	if ctx.Err() != nil && cut {
		return context.Cause(ctx)
	}
	return typed(s.dialect, err)
}

// call runs do as one call of the sink, with the tables checked.
func (s *Sink) call(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if err := s.ready(ctx); err != nil {
		return s.why(ctx, err)
	}
	return s.why(ctx, do(ctx))
}

// Health returns nil if the database answers.
func (s *Sink) Health(ctx context.Context) error {
	err := s.call(ctx, func(ctx context.Context) error {
		var one int
		return s.pools.read.QueryRowContext(ctx, "SELECT 1 FROM lockstep_format").Scan(&one)
	})
	if err != nil {
		return fmt.Errorf("sql: health: %w", err)
	}
	return nil
}

// Close interrupts the calls in flight, except for a COMMIT, waits for them, and
// closes the connections. A second Close does nothing.
func (s *Sink) Close(context.Context) error {
	s.closeOnce.Do(func() {
		s.close(framework.ErrClosed)
		s.calls.Lock()
		defer s.calls.Unlock()
		s.closeErr = errors.Join(s.writers.close(), s.pools.write.Close(), s.pools.read.Close())
	})
	return s.closeErr
}
