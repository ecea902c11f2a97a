package cassandra

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// faultyStore is a fake database that answers at once, except where a test steps
// in between. It may be used concurrently.
type faultyStore struct {
	mu    sync.Mutex
	db    *fakeDB
	seen  []string // the statements, in order
	hooks hooks
	skew  atomic.Int64 // of the process's clock, nanoseconds
}

// hooks are what a test puts between statements and their effect. They run while
// the store is locked.
type hooks struct {
	execute, apply, read, chunk func(do func()) error
	largest                     int // bytes of the largest insert or batch, 0: any
}

func (s *faultyStore) set(h hooks) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks = h
}

// refusal is an error as the driver reports it.
type refusal struct{ code int }

func (r refusal) Code() int       { return r.code }
func (r refusal) Message() string { return r.Error() }
func (r refusal) Error() string   { return fmt.Sprintf("refused with %#x", r.code) }

var _ gocql.RequestError = refusal{}

// run does what a statement of size bytes does, under the hook that a test has set.
func (s *faultyStore) run(name string, size int, do func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, name)
	var hook func(func()) error
	switch kind, _, _ := strings.Cut(name, " "); {
	case s.hooks.largest > 0 && size > s.hooks.largest:
		return refusal{gocql.ErrCodeInvalid}
	case kind == "execute":
		hook = s.hooks.execute
	case kind == "apply":
		hook = s.hooks.apply
	case kind == "chunk":
		hook = s.hooks.chunk
	case kind == "read":
		hook = s.hooks.read
	}
	if hook != nil {
		return hook(do)
	}
	do()
	return nil
}

func (s *faultyStore) readLedger(_ context.Context, lane laneKey) (row *ledgerRow, err error) {
	err = s.run("read", 0, func() { row = s.db.readLedger(lane) })
	return row, err
}

func (s *faultyStore) execute(_ context.Context, st conditional) (applied bool, err error) {
	err = s.run("execute"+describe(st), 0, func() { applied = s.db.execute(st) })
	return applied && err == nil, err
}

func (s *faultyStore) writeChunk(_ context.Context, key stageKey, n int, data []byte) error {
	return s.run(fmt.Sprintf("chunk %d/%d", key.seq, n), len(data), func() { s.db.writeChunk(key, n, data) })
}

func (s *faultyStore) readChunks(_ context.Context, key stageKey) (chunks map[int][]byte, err error) {
	err = s.run("chunks", 0, func() { chunks = s.db.readChunks(key) })
	return chunks, err
}

func (s *faultyStore) deleteChunks(_ context.Context, key stageKey) error {
	return s.run(fmt.Sprintf("delete chunks %d", key.seq), 0, func() { s.db.deleteChunks(key) })
}

func (s *faultyStore) apply(_ context.Context, group []mutation) error {
	size := 0
	for i := range group {
		size += group[i].size()
	}
	return s.run("apply", size, func() { s.db.apply(group) })
}

func (s *faultyStore) readState(_ context.Context, b stateBucket, keys [][]byte) (values map[string][]byte, err error) {
	err = s.run(fmt.Sprintf("state of %d keys", len(keys)), 0, func() { values = s.db.readState(b, keys) })
	return values, err
}

func (s *faultyStore) readTopic(_ context.Context, pipeline, topic string) (row *topicRow, err error) {
	err = s.run("topic", 0, func() { row = s.db.readTopic(pipeline, topic) })
	return row, err
}

func (s *faultyStore) insertTopic(_ context.Context, pipeline, topic string, row topicRow) error {
	return s.run("store topic", 0, func() { s.db.insertTopic(pipeline, topic, row) })
}

// sent returns the statements that began with prefix.
func (s *faultyStore) sent(prefix string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, name := range s.seen {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names
}

// staged returns how many saves have stage rows.
func (s *faultyStore) staged() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.db.stage)
}

func (s *faultyStore) row() *ledgerRow {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.db.readLedger(unitLane)
}

var countKey = framework.StateKey{Operator: "count", Key: []byte("k")}

var unitLane = laneKey{"p", "in", 3}

func newUnitEngine(s *faultyStore) *engine {
	c := clock{now: func() time.Time { return time.Now().Add(time.Duration(s.skew.Load())) }}
	return newEngine(s, newFakeTables(simRows), c, defaultTuning(), "me", slog.New(slog.DiscardHandler))
}

// inUnit runs f in virtual time, with an engine and a claim at offset 10, and sees
// to it that nothing runs afterwards.
func inUnit(t *testing.T, f func(t *testing.T, s *faultyStore, e *engine, c *claim)) {
	synctest.Test(t, func(t *testing.T) {
		s := &faultyStore{db: newFakeDB()}
		e := newUnitEngine(s)
		c, err := e.claimLane(t.Context(), unitLane, offsetstore.At(10))
		if err != nil {
			t.Fatal(err)
		}
		f(t, s, e, c)
		if err := e.shut(context.Background(), func() {}); err != nil {
			t.Error(err)
		}
	})
}

// unitBatch has one row per offset, of size bytes that do not compress.
func unitBatch(from, to int64, size int) *framework.Batch[Write] {
	b := &framework.Batch[Write]{From: framework.Progress{Position: offsetstore.At(from)}, To: framework.Progress{Position: offsetstore.At(to)}}
	for off := from; off < to; off++ {
		b.Writes = append(b.Writes, simRows.Insert(simRow{Part: int32(off % 2), Off: off, Value: Set(noise(off, size))}))
	}
	return b
}

// noise returns text that does not compress, the same for the same seed.
func noise(seed int64, size int) string {
	b := make([]byte, size)
	x := uint64(seed)*2654435761 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(' ' + x%90)
	}
	return string(b)
}

func mustSaveUnit(t *testing.T, c *claim, b *framework.Batch[Write]) {
	t.Helper()
	if err := c.Save(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

func wantUnitError(t *testing.T, err error, o framework.Outcome, spent bool, reason error) {
	t.Helper()
	var se *framework.SaveError
	if !errors.As(err, &se) || se.Outcome != o || se.ClaimSpent != spent || !errors.Is(err, reason) {
		t.Fatalf("Save returned %v (%+v), want outcome %s, spent %v, %v", err, se, o, spent, reason)
	}
}

func TestSmallSaveTravelsInTheLedgerAndLargeOneInTheStage(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, _ *engine, c *claim) {
		mustSaveUnit(t, c, unitBatch(10, 12, 100))
		if row := s.row(); row.chunks != 0 || len(row.body) == 0 || row.bytes != len(row.body) {
			t.Errorf("a small save has %d chunks and a body of %d bytes", row.chunks, len(row.body))
		}
		mustSaveUnit(t, c, unitBatch(12, 14, 20<<10))
		if row := s.row(); row.chunks != 1 || len(s.sent("chunk 2/")) != 1 {
			t.Errorf("a save of 40 KiB has %d chunks", row.chunks)
		}
		mustSaveUnit(t, c, unitBatch(14, 20, 100<<10))
		if row := s.row(); row.chunks < 3 || len(s.sent("chunk 3/")) != row.chunks {
			t.Errorf("a save of 600 KiB has %d chunks", row.chunks)
		}
	})
}

func TestEmptySaveMovesThePositionByOneStatementAndNeedsNoMark(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, _ *engine, c *claim) {
		before := len(s.sent(""))
		mustSaveUnit(t, c, unitBatch(10, 10, 0))
		b := unitBatch(10, 10, 0)
		b.To.Position = offsetstore.At(15)
		mustSaveUnit(t, c, b)
		time.Sleep(time.Minute)
		if n := len(s.sent("")) - before; n != 2 {
			t.Errorf("two empty saves took %d statements: %q", n, s.sent("")[before:])
		}
		if row := s.row(); row.position.Offset != 15 || row.pending() || row.highTS != 0 {
			t.Errorf("the row is %+v", row)
		}
	})
}

func TestIdleLaneIsMarkedAppliedAfterASecondAndItsStageRemoved(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, _ *engine, c *claim) {
		mustSaveUnit(t, c, unitBatch(10, 12, 100))
		mustSaveUnit(t, c, unitBatch(12, 20, 50<<10))
		time.Sleep(900 * time.Millisecond)
		if !s.row().pending() {
			t.Error("the save was marked before the lane was idle for a second")
		}
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if s.row().pending() {
			t.Error("the save was not marked after a second")
		}
		if s.staged() != 0 {
			t.Errorf("stage rows are left: %d saves", s.staged())
		}
		mustSaveUnit(t, c, unitBatch(20, 21, 100)) // the mark does not disturb
	})
}

func TestMarkIsTriedUntilItIsAnswered(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, _ *engine, c *claim) {
		mustSaveUnit(t, c, unitBatch(10, 12, 100))
		s.set(hooks{execute: func(func()) error { return errLost }})
		time.Sleep(time.Minute)
		s.set(hooks{})
		time.Sleep(10 * time.Second)
		if s.row().pending() {
			t.Error("the save was not marked after the database came back")
		}
		before := len(s.sent(""))
		time.Sleep(time.Hour)
		if n := len(s.sent("")) - before; n != 0 {
			t.Errorf("an idle lane sent %d statements in an hour", n)
		}
	})
}

func TestReleaseMarksAndGivesUpTheClaim(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, e *engine, c *claim) {
		mustSaveUnit(t, c, unitBatch(10, 20, 50<<10))
		if err := c.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		row := s.row()
		if row.pending() || row.claim == c.token || row.owner != "" || s.staged() != 0 {
			t.Errorf("after the release the row is %+v, and %d saves are staged", row, s.staged())
		}
		wantUnitError(t, c.Save(t.Context(), unitBatch(20, 21, 1)), framework.NotSaved, true, framework.ErrClosed)
		if err := c.Release(t.Context()); err != nil {
			t.Errorf("the second release returned %v", err)
		}
		next, err := e.claimLane(t.Context(), unitLane, offsetstore.At(0))
		if err != nil || next.Progress().Position.Offset != 20 {
			t.Errorf("claimed again: %v, %+v", err, next)
		}
	})
}

func TestReleaseDoesNotHideASaveThatIsNotApplied(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, e *engine, c *claim) {
		s.set(hooks{apply: func(func()) error { return errLost }})
		wantUnitError(t, c.Save(t.Context(), unitBatch(10, 12, 10)), framework.Saved, true, framework.ErrNotApplied)
		if err := c.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if row := s.row(); !row.pending() || row.claim != c.token {
			t.Errorf("the row is %+v", row)
		}
		s.set(hooks{})
		if _, err := e.claimLane(t.Context(), unitLane, offsetstore.At(0)); err != nil {
			t.Fatal(err)
		}
		if n := len(s.db.read()); n != 2 {
			t.Errorf("the next claim left %d rows, want 2", n)
		}
	})
}

func TestApplyGivesUpWhenTheLeaseIsOver(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, _ *engine, c *claim) {
		s.set(hooks{apply: func(func()) error { return errLost }})
		began := time.Now()
		err := c.Save(t.Context(), unitBatch(10, 12, 10))
		wantUnitError(t, err, framework.Saved, true, framework.ErrNotApplied)
		if took := time.Since(began); took < 9*time.Minute || took > 10*time.Minute+5*time.Second {
			t.Errorf("it tried for %v, want the lease of 10 minutes", took)
		}
	})
}

func TestUnknownOutcomeIsGivenUpAfterTwoMinutes(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, _ *engine, c *claim) {
		s.set(hooks{
			execute: func(do func()) error { do(); return errLost },
			read:    func(func()) error { return errLost },
		})
		began := time.Now()
		err := c.Save(t.Context(), unitBatch(10, 12, 10))
		wantUnitError(t, err, framework.Unknown, true, framework.ErrUnknown)
		if took := time.Since(began); took < 110*time.Second || took > 130*time.Second {
			t.Errorf("it tried for %v, want 2 minutes", took)
		}
		s.set(hooks{})
		wantUnitError(t, c.Save(t.Context(), unitBatch(10, 12, 10)), framework.NotSaved, true, framework.ErrUnknown)
	})
}

func TestRequestThatNeverArrivedIsSentAgainUnchanged(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, _ *engine, c *claim) {
		lost := 0
		s.set(hooks{execute: func(do func()) error {
			if lost++; lost <= 3 {
				return errLost
			}
			do()
			return nil
		}})
		mustSaveUnit(t, c, unitBatch(10, 12, 10))
		var commits []string
		for _, name := range s.seen {
			if strings.HasPrefix(name, "execute seq=") {
				commits = append(commits, name)
			}
		}
		if len(commits) != 4 || len(slices.Compact(commits)) != 1 {
			t.Errorf("the commit was sent as %q", commits)
		}
	})
}

func TestRefusedCommitLeavesTheClaimGood(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, _ *engine, c *claim) {
		s.set(hooks{execute: func(func()) error { return refusal{gocql.ErrCodeUnauthorized} }})
		wantUnitError(t, c.Save(t.Context(), unitBatch(10, 12, 10)), framework.NotSaved, false, framework.ErrConfig)
		if len(s.sent("read")) != 2 { // those of the claim
			t.Error("a definite answer was doubted")
		}
		s.set(hooks{})
		mustSaveUnit(t, c, unitBatch(10, 12, 10))
	})
}

func TestRefusalOfARepetitionSaysNothingOfTheFirstAttempt(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, _ *engine, c *claim) {
		n := 0
		s.set(hooks{execute: func(do func()) error {
			if n++; n == 1 {
				return errLost
			}
			return refusal{gocql.ErrCodeUnauthorized}
		}})
		wantUnitError(t, c.Save(t.Context(), unitBatch(10, 12, 10)), framework.Unknown, true, framework.ErrUnknown)
	})
}

func TestChunksThatTheServerRefusesAreDividedUnderANewNumber(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, _ *engine, c *claim) {
		s.set(hooks{largest: 70 << 10})
		mustSaveUnit(t, c, unitBatch(10, 40, 10<<10))
		row := s.row()
		if row.seq == 1 || row.chunks < 5 {
			t.Errorf("save %d has %d chunks", row.seq, row.chunks)
		}
		err := c.Save(t.Context(), unitBatch(40, 41, 80<<10))
		wantUnitError(t, err, framework.NotSaved, false, framework.ErrTooLarge)
		if errors.Is(err, framework.ErrConfig) {
			t.Errorf("a batch that is too large is called a fault of the configuration: %v", err)
		}
		mustSaveUnit(t, c, unitBatch(40, 60, 10<<10))
		time.Sleep(2 * time.Second)
		if s.staged() != 0 {
			t.Errorf("stage rows of %d saves are left", s.staged())
		}
		if n := len(s.db.read()); n != 50 {
			t.Errorf("%d rows, want 50", n)
		}
	})
}

func TestBatchThatCannotBeSavedIsRefusedBeforeAnythingIsSent(t *testing.T) {
	for name, test := range map[string]struct {
		batch  func() *framework.Batch[Write]
		reason error
		words  string
	}{
		"goes back": {func() *framework.Batch[Write] {
			b := unitBatch(10, 11, 1)
			b.To.Position.Offset = 9
			return b
		}, framework.ErrRefused, "goes back"},
		"no table":       {func() *framework.Batch[Write] { b := unitBatch(10, 11, 1); b.Writes[0] = Write{}; return b }, framework.ErrRefused, "write 0"},
		"large write":    {func() *framework.Batch[Write] { return unitBatch(10, 11, 2<<20) }, framework.ErrTooLarge, "write 0"},
		"large batch":    {func() *framework.Batch[Write] { return unitBatch(10, 30, 1<<19) }, framework.ErrTooLarge, "limit"},
		"large lane":     {func() *framework.Batch[Write] { b := unitBatch(10, 11, 1); b.To.Lane = make([]byte, 9000); return b }, framework.ErrTooLarge, "own data"},
		"large state":    {func() *framework.Batch[Write] { return stateBatchOf(nil, 5<<20) }, framework.ErrTooLarge, "lockstep_state"},
		"long state key": {func() *framework.Batch[Write] { return stateBatchOf(make([]byte, 70_000), 1) }, framework.ErrRefused, "key"},
	} {
		t.Run(name, func(t *testing.T) {
			inUnit(t, func(t *testing.T, s *faultyStore, _ *engine, c *claim) {
				before := len(s.sent(""))
				err := c.Save(t.Context(), test.batch())
				wantUnitError(t, err, framework.NotSaved, false, test.reason)
				for _, w := range []string{test.words, `pipeline "p"`, "in/3"} {
					if !strings.Contains(err.Error(), w) {
						t.Errorf("the error does not say %q: %v", w, err)
					}
				}
				if len(s.sent("")) != before {
					t.Errorf("statements were sent: %q", s.sent("")[before:])
				}
				mustSaveUnit(t, c, unitBatch(10, 11, 1))
			})
		})
	}
}

// Any record could be blamed for a refusal, and passed over; this one is not about records.
func TestBatchThatDoesNotContinueSpendsTheClaim(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, _ *engine, c *claim) {
		before := len(s.sent(""))
		err := c.Save(t.Context(), unitBatch(11, 12, 1))
		wantUnitError(t, err, framework.NotSaved, true, framework.ErrCorrupt)
		if len(s.sent("")) != before {
			t.Errorf("statements were sent: %q", s.sent("")[before:])
		}
	})
}

func stateBatchOf(key []byte, size int) *framework.Batch[Write] {
	b := unitBatch(10, 10, 0)
	b.State = []framework.StateEntry{{StateKey: framework.StateKey{Operator: "o", Key: key}, Value: make([]byte, size)}}
	return b
}

func TestClockFarBehindTheLaneIsRefused(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, e *engine, c *claim) {
		mustSaveUnit(t, c, unitBatch(10, 11, 1))
		s.skew.Store(int64(-4 * time.Minute))
		mustSaveUnit(t, c, unitBatch(11, 12, 1))
		s.skew.Store(int64(-6 * time.Minute))
		wantUnitError(t, c.Save(t.Context(), unitBatch(12, 13, 1)), framework.NotSaved, false, framework.ErrUnavailable)
		if _, err := e.claimLane(t.Context(), unitLane, offsetstore.At(0)); !errors.Is(err, framework.ErrUnavailable) || !strings.Contains(err.Error(), "clock") {
			t.Errorf("Claim returned %v", err)
		}
		if s.row().claim != c.token {
			t.Error("the refused claim has fenced the owner")
		}
		s.skew.Store(0)
		mustSaveUnit(t, c, unitBatch(12, 13, 1))
	})
}

func TestClockThatWasSetIsComparedAgain(t *testing.T) {
	opened := time.Now()
	compared, answer := 0, error(nil)
	g := clockGuard{opened: opened, compare: func(context.Context) error { compared++; return answer }}
	check := func(wall, ran time.Duration) error { return g.check(t.Context(), opened.Add(wall), ran) }
	if err := check(time.Hour+time.Second, time.Hour); err != nil || compared != 0 {
		t.Errorf("a clock that runs evenly was compared %d times: %v", compared, err)
	}
	if err := check(2*time.Hour, time.Hour); err != nil || compared != 1 {
		t.Errorf("a clock that was set, and is right, was compared %d times: %v", compared, err)
	}
	if err := check(3*time.Hour, 2*time.Hour); err != nil || compared != 1 {
		t.Errorf("it was compared %d times, want no more: %v", compared, err)
	}
	answer = framework.ErrConfig
	for range 2 {
		if err := check(time.Hour, 2*time.Hour); !errors.Is(err, framework.ErrConfig) {
			t.Errorf("a wrong clock was accepted: %v", err)
		}
	}
}

func TestLeaseCountsByTheFasterClock(t *testing.T) {
	now := time.Now()
	wall := now.Add(3 * time.Minute).Round(0) // set forward, or suspended
	l := lease{clock: clock{now: func() time.Time { return wall }}, start: now, limit: 10 * time.Minute}
	if left := l.left(); left > 7*time.Minute+time.Second || left < 6*time.Minute {
		t.Errorf("%v are left, want 7 minutes", left)
	}
}

func TestCancelledSaveFinishesWithinItsGrace(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, _ *engine, c *claim) {
		ctx, cancel := context.WithCancel(t.Context())
		s.set(hooks{execute: func(do func()) error { cancel(); do(); return nil }})
		if err := c.Save(ctx, unitBatch(10, 12, 10)); err != nil {
			t.Errorf("cancelled while the commit was on its way, and all answered: Save returned %v", err)
		}
		s.set(hooks{})
		wantUnitError(t, c.Save(ctx, unitBatch(12, 13, 10)), framework.NotSaved, false, context.Canceled)
		mustSaveUnit(t, c, unitBatch(12, 13, 10))

		ctx, cancel = context.WithCancel(t.Context())
		s.set(hooks{apply: func(func()) error { cancel(); return errLost }})
		began := time.Now()
		err := c.Save(ctx, unitBatch(13, 14, 10))
		wantUnitError(t, err, framework.Saved, true, framework.ErrNotApplied)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the error does not say that it was cancelled: %v", err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("a cancelled save took %v", took)
		}
	})
}

func TestDuelEndsAfterFiveTriesAndSaysSo(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, e *engine, c *claim) {
		thief := byte(100)
		s.set(hooks{execute: func(func()) error { // someone is always faster
			thief++
			row := s.db.ledger[unitLane]
			row.claim, row.epoch = gocql.UUID{thief}, row.epoch+1
			return nil
		}})
		began := time.Now()
		_, err := e.claimLane(t.Context(), unitLane, offsetstore.At(0))
		if !errors.Is(err, framework.ErrFenced) || len(s.sent("execute epoch=")) != 5 {
			t.Errorf("Claim returned %v after %d tries", err, len(s.sent("execute epoch=")))
		}
		if took := time.Since(began); took != 15*time.Second {
			t.Errorf("it backed off for %v, want 1+2+4+8 seconds", took)
		}
		s.set(hooks{})
	})
}

func TestRowOfANewerFormatIsNotTouched(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, e *engine, _ *claim) {
		s.db.ledger[unitLane].format = ledgerFormat + 1
		before := len(s.sent("execute"))
		if _, err := e.claimLane(t.Context(), unitLane, offsetstore.At(0)); !errors.Is(err, framework.ErrConfig) {
			t.Errorf("Claim returned %v", err)
		}
		if len(s.sent("execute")) != before {
			t.Error("the row was written to")
		}
	})
}

func TestCloseEndsCallsInFlightAndRefusesLaterOnes(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, e *engine, c *claim) {
		s.set(hooks{execute: func(func()) error { return errLost }})
		done := make(chan error)
		go func() { done <- c.Save(t.Context(), unitBatch(10, 12, 10)) }()
		time.Sleep(time.Second)
		if err := e.shut(t.Context(), func() {}); err != nil {
			t.Fatal(err)
		}
		err := <-done
		wantUnitError(t, err, framework.Unknown, true, framework.ErrUnknown)
		if !errors.Is(err, framework.ErrClosed) {
			t.Errorf("the error does not say that the sink was closed: %v", err)
		}
		wantUnitError(t, c.Save(t.Context(), unitBatch(10, 12, 10)), framework.NotSaved, true, framework.ErrClosed)
		if _, err := c.Load(t.Context(), nil); !errors.Is(err, framework.ErrClosed) {
			t.Errorf("Load returned %v", err)
		}
	})
}

func TestASaveThatCloseKeepsFromCommittingSpendsItsClaim(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, e *engine, c *claim) {
		s.set(hooks{chunk: func(func()) error { return errLost }}) // it never comes to the commit
		done := make(chan error)
		go func() { done <- c.Save(t.Context(), unitBatch(10, 20, 50<<10)) }()
		time.Sleep(time.Second)
		if err := e.shut(t.Context(), func() {}); err != nil {
			t.Fatal(err)
		}
		wantUnitError(t, <-done, framework.NotSaved, true, framework.ErrClosed)
	})
}

func TestStateIsReadByBucketInTheOrderOfTheKeys(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, _ *engine, c *claim) {
		b := unitBatch(10, 11, 1)
		var keys []framework.StateKey
		for i := range 500 {
			k := framework.StateKey{Operator: "o", Window: int64(i % 2), Key: fmt.Appendf(nil, "key %d", i)}
			keys = append(keys, k)
			if i%3 != 0 {
				b.State = append(b.State, framework.StateEntry{StateKey: k, Value: fmt.Appendf(nil, "%d", i)})
			}
		}
		b.State = append(b.State, framework.StateEntry{StateKey: framework.StateKey{Operator: "o"}, Value: []byte{}})
		keys = append(keys, framework.StateKey{Operator: "o"})
		mustSaveUnit(t, c, b)
		values, err := c.Load(t.Context(), keys)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range values[:500] {
			if want := fmt.Sprint(i); i%3 != 0 && string(v) != want || i%3 == 0 && v != nil {
				t.Errorf("key %d has %q", i, v)
			}
		}
		if v := values[500]; v == nil || len(v) != 0 {
			t.Errorf("an empty value of an empty key reads %#v", v)
		}
		if n := len(s.sent("state of")); n > 2*stateBuckets {
			t.Errorf("%d reads for 2 windows of %d buckets", n, stateBuckets)
		}
	})
}

func TestBucketsOfKeysNeverChange(t *testing.T) {
	// They are where stored state is found: a change loses it.
	for key, want := range map[string]int32{"": 5, "a": 44, "key": 44, "\x00\xff": 32} {
		if got := bucketOf([]byte(key)); got != want {
			t.Errorf("key %q is in bucket %d, want %d", key, got, want)
		}
	}
}

func TestGroupsHoldOnePartitionInOrderWithinTheLimits(t *testing.T) {
	tables := newFakeTables(simRows)
	var ws []Write
	for i := range int64(1000) {
		ws = append(ws, simRows.Insert(simRow{Part: int32(i * i % 7), Off: i, Value: Set(strings.Repeat("v", int(i)%300))}))
	}
	ms, err := mutations(ws, 1, tables)
	if err != nil {
		t.Fatal(err)
	}
	seen, last := 0, map[string]int64{}
	for _, g := range groups(ms, 4<<10, 30) {
		size := 0
		for i := range g {
			part := string(g[i].partition())
			if part != string(g[0].partition()) || g[i].timestamp <= last[part] {
				t.Fatalf("write %d is out of place", g[i].timestamp)
			}
			last[part] = g[i].timestamp
			size += g[i].size()
		}
		if len(g) > 30 || size > 4<<10 {
			t.Errorf("a group has %d statements and %d bytes", len(g), size)
		}
		seen += len(g)
	}
	if seen != len(ms) {
		t.Errorf("the groups hold %d writes, want %d", seen, len(ms))
	}
	if got := groups(nil, 1, 1); len(got) != 0 {
		t.Errorf("no writes make %d groups", len(got))
	}
}
