package cassandra

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/gocql/gocql"
	"golang.org/x/sync/semaphore"

	"github.com/lockstep-stream/lockstep/framework"
)

// tuning is every number of the protocol. Only tests change them.
type tuning struct {
	inlineBytes int // a blob up to this is kept in the ledger row
	blobBytes   int // largest blob, encoded
	chunkBytes  int // largest chunk; a single larger write has its own
	loneBytes   int // a write above this travels alone, uncompressed
	writeBytes  int // largest write of a pipeline
	ownBytes    int // largest state entry or dead letter

	groupBytes      int   // of the writes of one apply statement
	groupStatements int   // in one apply statement
	laneInFlight    int   // apply and stage statements of one lane
	inFlight        int64 // of the process
	bytesInFlight   int64 // of the process

	retryFirst, retryMost time.Duration // delays between repetitions
	duelFirst, duelMost   time.Duration // delays between claims that others win
	duelTries             int
	claims                int64 // at once

	unknownLimit time.Duration // how long to look for the outcome of a statement
	applyLease   time.Duration
	idleMark     time.Duration // without a save, until it is marked as applied
	cancelGrace  time.Duration // what a cancelled Save gets to finish
	aheadLimit   time.Duration // by which the lane's clock may lead ours
}

func defaultTuning() tuning {
	return tuning{
		inlineBytes: 32 << 10,
		blobBytes:   8 << 20,
		chunkBytes:  256 << 10,
		loneBytes:   128 << 10,
		writeBytes:  1 << 20,
		ownBytes:    4 << 20,

		groupBytes:      128 << 10,
		groupStatements: 200,
		laneInFlight:    8,
		inFlight:        64,
		bytesInFlight:   8 << 20,

		retryFirst: 50 * time.Millisecond,
		retryMost:  5 * time.Second,
		duelFirst:  time.Second,
		duelMost:   30 * time.Second,
		duelTries:  5,
		claims:     16,

		unknownLimit: 2 * time.Minute,
		applyLease:   10 * time.Minute,
		idleMark:     time.Second,
		cancelGrace:  2 * time.Second,
		aheadLimit:   5 * time.Minute,
	}
}

// fit lowers what the server's largest mutation does not allow.
func (t tuning) fit(s server) tuning {
	t.writeBytes = s.maxWrite
	t.chunkBytes = min(t.chunkBytes, s.maxChunk)
	t.ownBytes = max(s.maxWrite, s.maxMutation/4)
	t.groupBytes = min(t.groupBytes, s.maxMutation/4)
	return t
}

// tables finds the real tables behind writes and behind stored blobs.
type tables interface {
	binder
	resolver
}

// engine runs the protocol for all lanes of one process: claim, save, apply,
// settle are a file each. It reaches the database through store and the time
// through clock alone.
type engine struct {
	store  store
	tables tables
	clock  clock
	guard  clockGuard
	tuning tuning
	token  func() (gocql.UUID, error)
	spawn  func(f func())              // go f(), except where a test decides when f begins
	links  *links                      // nil: what is acknowledged is never forgotten
	verify func(context.Context) error // that the tables are the ones that were checked; nil: never
	owner  string
	log    *slog.Logger

	counters counters
	teller   teller

	slots    *semaphore.Weighted // statements in flight
	bytes    *semaphore.Weighted // bytes in flight
	claiming *semaphore.Weighted

	closing context.Context // ends when the sink is closed, with ErrClosed
	close   context.CancelCauseFunc
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup // calls and background work
	ended   chan struct{}  // closed when the last of them has ended after closing
}

func newEngine(s store, t tables, c clock, tu tuning, owner string, log *slog.Logger) *engine {
	e := &engine{
		store: s, tables: t, clock: c, tuning: tu, token: gocql.RandomUUID, owner: owner, log: log,
		spawn:    func(f func()) { go f() },
		slots:    semaphore.NewWeighted(tu.inFlight),
		bytes:    semaphore.NewWeighted(tu.bytesInFlight),
		claiming: semaphore.NewWeighted(tu.claims),
		ended:    make(chan struct{}),
	}
	e.closing, e.close = context.WithCancelCause(context.Background())
	return e
}

// enter counts a call or background work in, and refuses it once the sink is
// closed. Each success is followed by running.Done.
func (e *engine) enter() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return fmt.Errorf("cassandra sink: %w", framework.ErrClosed)
	}
	e.running.Add(1)
	return nil
}

// begin starts a call. Its context also ends when the sink is closed, with
// ErrClosed as the cause. The returned function must be called at the end.
func (e *engine) begin(ctx context.Context) (context.Context, func(), error) {
	if err := e.enter(); err != nil {
		return nil, nil, err
	}
	// The caller's context and the sink's life, whichever ends first.
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(e.closing, func() { cancel(context.Cause(e.closing)) })
	return ctx, func() { stop(); cancel(nil); e.running.Done() }, nil
}

// shut refuses new calls, ends those in flight, and when none is left calls last,
// once. It waits for that until ctx ends.
func (e *engine) shut(ctx context.Context, last func()) error {
	e.mu.Lock()
	first := !e.closed
	e.closed = true
	e.mu.Unlock()
	if first {
		e.close(framework.ErrClosed)
		go func() {
			e.running.Wait()
			last()
			close(e.ended)
		}()
	}
	select {
	case <-e.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// retry calls f until it succeeds, is refused for good, or the unknown limit or
// ctx ends: for statements that may be repeated.
func (e *engine) retry(ctx context.Context, f func() error) error {
	delays := e.clock.backoff(e.tuning.retryFirst, e.tuning.retryMost)
	for limit := e.unknownLimit(); ; {
		err := f()
		if err == nil {
			return nil
		}
		e.waiting(limit.start, "read, or stage", err)
		// Waiting mends timeouts and nodes that are down, not a refusal.
		if refusedForGood(err) {
			return storeError(err)
		}
		if cause := context.Cause(ctx); cause != nil {
			return fmt.Errorf("%w (%w)", cause, err)
		}
		d := delays.NextBackOff()
		if limit.left() < d {
			return storeError(err)
		}
		if cause := e.clock.sleep(ctx, d); cause != nil {
			return fmt.Errorf("%w (%w)", cause, err)
		}
	}
}

func (e *engine) verifyTables(ctx context.Context) error {
	if e.verify == nil {
		return nil
	}
	return e.verify(ctx)
}

func (e *engine) unknownLimit() lease {
	return lease{clock: e.clock, start: e.clock.now(), limit: e.tuning.unknownLimit}
}

// grace returns a context for the statements of a save that has been sent: it
// outlives ctx by a little, so that a cancel rarely hides the outcome, and never
// long, so that a cancelled call returns soon.
func (e *engine) grace(ctx context.Context) (context.Context, func()) {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if e.clock.sleep(work, e.tuning.cancelGrace) == nil {
			cancel(context.Cause(ctx))
		}
	})
	return work, func() { stop(); cancel(nil) }
}
