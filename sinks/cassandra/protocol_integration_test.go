//go:build integration

package cassandra

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gocql/gocql"
	"go.uber.org/goleak"

	"github.com/lockstep-stream/lockstep/framework"
	faults "github.com/lockstep-stream/lockstep/integration/proxy"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// logRow is one row per record, as a pipeline that copies would write it.
type logRow struct {
	Part  int32  `cql:"part,partition"`
	Off   int64  `cql:"off,clustering"`
	Value string `cql:"value"`
}

var logRows = NewTable[logRow]("log_rows")

const logRowsSchema = "CREATE TABLE IF NOT EXISTS log_rows (part int, off bigint, value text, PRIMARY KEY (part, off))"

var in0 = offsetstore.TopicPartition{Topic: "in"}

// bed is a keyspace, and sinks that share it as processes would.
type bed struct {
	t       *testing.T
	cfg     *Config
	session *gocql.Session
}

func newBed(t *testing.T) *bed {
	cfg, session := migrated(t, logRowsSchema)
	cfg.Tables = []AnyTable{logRows}
	return &bed{t, cfg, session}
}

// hookStore lets a test step in between the protocol and the database.
type hookStore struct {
	store
	beforeExecute func(st conditional)
	applyHook     func(ctx context.Context, group []mutation, next func() error) error
}

func (h *hookStore) execute(ctx context.Context, st conditional) (bool, error) {
	if h.beforeExecute != nil {
		h.beforeExecute(st)
	}
	return h.store.execute(ctx, st)
}

func (h *hookStore) apply(ctx context.Context, group []mutation) error {
	next := func() error { return h.store.apply(ctx, group) }
	if h.applyHook == nil {
		return next()
	}
	return h.applyHook(ctx, group, next)
}

// sink opens one, with a hook.
func (b *bed) sink(cfg Config, tu tuning) (*Sink, *hookStore) {
	b.t.Helper()
	s, err := open(b.t.Context(), cfg, systemClock(), tu)
	if err != nil {
		b.t.Fatal(err)
	}
	h := &hookStore{store: s.store}
	s.store = h
	b.t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			b.t.Error(err)
		}
	})
	return s, h
}

func (b *bed) open() (*Sink, *hookStore) { b.t.Helper(); return b.sink(*b.cfg, defaultTuning()) }

func (b *bed) claim(s *Sink) framework.Claim[Write] {
	b.t.Helper()
	c, err := s.Claim(b.t.Context(), "p", in0, offsetstore.At(0))
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// rows returns what a reader sees: the values by offset.
func (b *bed) rows() map[int64]string {
	b.t.Helper()
	iter := b.session.Query("SELECT off, value FROM log_rows").Iter()
	rows := map[int64]string{}
	var off int64
	for value := ""; iter.Scan(&off, &value); {
		rows[off] = value
	}
	if err := iter.Close(); err != nil {
		b.t.Fatal(err)
	}
	return rows
}

// wantRows checks that offsets 0 up to n have one row each, with a value.
func (b *bed) wantRows(n int64, value string) {
	b.t.Helper()
	rows := b.rows()
	if int64(len(rows)) != n {
		b.t.Errorf("%d rows, want %d", len(rows), n)
	}
	for off := range n {
		if rows[off] != value {
			b.t.Errorf("offset %d has %.20q, want %.20q", off, rows[off], value)
			return
		}
	}
}

// logBatch copies offsets from up to to, with one value.
func logBatch(from, to int64, value string) *framework.Batch[Write] {
	b := &framework.Batch[Write]{From: framework.Progress{Position: offsetstore.At(from)}, To: framework.Progress{Position: offsetstore.At(to)}}
	for off := from; off < to; off++ {
		b.Writes = append(b.Writes, logRows.Insert(logRow{int32(off % 7), off, value}))
	}
	return b
}

func mustSave(t *testing.T, c framework.Claim[Write], b *framework.Batch[Write]) {
	t.Helper()
	if err := c.Save(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// wantSaveError checks what Save said.
func wantSaveError(t *testing.T, err error, o framework.Outcome, spent bool, reason error, words ...string) {
	t.Helper()
	var se *framework.SaveError
	if !errors.As(err, &se) || se.Outcome != o || se.ClaimSpent != spent || !errors.Is(err, reason) {
		t.Fatalf("Save returned %v (%+v), want outcome %s, spent %v, %v", err, se, o, spent, reason)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %q: %v", w, err)
		}
	}
}

func TestTwoOwnersWhoFightOverAPartitionLoseAndDoubleNothing(t *testing.T) {
	const end = 400
	b := newBed(t)
	tu := defaultTuning()
	tu.duelFirst, tu.duelMost, tu.duelTries = 10*time.Millisecond, 100*time.Millisecond, 1000
	var mu sync.Mutex
	saved := map[int64]string{} // by offset, the batch of which Save said it is saved
	var wg sync.WaitGroup
	for owner := range 3 {
		s, _ := b.sink(*b.cfg, tu)
		rng := mrand.New(mrand.NewPCG(uint64(owner), 7))
		wg.Go(func() {
			for n := 0; ; n++ {
				c, err := s.Claim(t.Context(), "p", in0, offsetstore.At(0))
				if err != nil {
					t.Error(err)
					return
				}
				at := c.Progress().Position.Offset
				for range 1 + rng.IntN(4) {
					if at >= end {
						return
					}
					to := min(at+1+rng.Int64N(6), end)
					name := fmt.Sprintf("%d-%d-%d", owner, n, at)
					batch := logBatch(at, to, name)
					key := framework.StateKey{Operator: "count", Key: []byte("k")}
					values, err := c.Load(t.Context(), []framework.StateKey{key})
					if err != nil {
						t.Error(err)
						return
					}
					total := int64(0)
					fmt.Sscan(string(values[0]), &total)
					batch.State = []framework.StateEntry{{StateKey: key, Value: fmt.Append(nil, total+to-at)}}
					err = c.Save(t.Context(), batch)
					var se *framework.SaveError
					if err == nil || errors.As(err, &se) && se.Outcome == framework.Saved {
						mu.Lock()
						for off := at; off < to; off++ {
							if saved[off] != "" {
								t.Errorf("offset %d was saved by %s and by %s", off, saved[off], name)
							}
							saved[off] = name
						}
						mu.Unlock()
					}
					if err != nil {
						if !errors.Is(err, framework.ErrFenced) {
							t.Error(err)
						}
						break
					}
					at = to
				}
			}
		})
	}
	wg.Wait()
	s, _ := b.open()
	c := b.claim(s)
	if at := c.Progress().Position.Offset; at != end {
		t.Errorf("the position is %d, want %d", at, end)
	}
	rows := b.rows()
	if len(rows) != end {
		t.Errorf("%d rows, want %d", len(rows), end)
	}
	for off, name := range saved {
		if rows[off] != name {
			t.Errorf("offset %d has the row of batch %s, but it was saved by %s", off, rows[off], name)
		}
	}
	values, err := c.Load(t.Context(), []framework.StateKey{{Operator: "count", Key: []byte("k")}})
	if err != nil || string(values[0]) != fmt.Sprint(end) {
		t.Errorf("the state counts %s (%v), want %d", values[0], err, end)
	}
}

// noAnswer makes an apply that never ends.
func noAnswer(ctx context.Context, _ []mutation, _ func() error) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestNextOwnerAppliesWhatACrashLeft(t *testing.T) {
	for name, size := range map[string]int{"small": 10, "staged": 20_000} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			former, hook := b.open()
			hook.applyHook = noAnswer
			value := rand.Text() + strings.Repeat("v", size)
			ctx, cancel := context.WithCancel(t.Context())
			hook.beforeExecute = func(st conditional) {
				if _, ok := st.value(colSaveClaim); ok {
					cancel()
				}
			}
			batch := logBatch(0, 50, value)
			for i := range batch.Writes {
				batch.Writes[i] = logRows.Insert(logRow{int32(i % 7), int64(i), value})
			}
			err := b.claim(former).Save(ctx, batch)
			wantSaveError(t, err, framework.Saved, true, framework.ErrNotApplied, "in/0", "offsets 0 up to 50")
			b.wantRows(0, "")

			next, _ := b.open()
			c := b.claim(next)
			b.wantRows(50, value)
			if at := c.Progress().Position.Offset; at != 50 {
				t.Errorf("the next owner continues at %d, want 50", at)
			}
			mustSave(t, c, logBatch(50, 51, value))
			b.wantRows(51, value)
		})
	}
}

func TestFormerOwnerThatWasPausedIsRefusedAndItsLateWritesLose(t *testing.T) {
	b := newBed(t)
	former, hook := b.open()
	resume, applying := make(chan struct{}), make(chan struct{})
	var once sync.Once
	hook.applyHook = func(_ context.Context, _ []mutation, next func() error) error {
		once.Do(func() { close(applying) })
		<-resume
		return next()
	}
	c := b.claim(former)
	done := make(chan error)
	go func() { done <- c.Save(t.Context(), logBatch(0, 20, "former")) }()
	<-applying

	next, _ := b.open()
	n := b.claim(next)
	b.wantRows(20, "former")
	redo := logBatch(20, 21, "next")
	redo.Writes = logBatch(0, 21, "next").Writes // the same rows again, newer
	mustSave(t, n, redo)
	b.wantRows(21, "next")

	close(resume)
	if err := <-done; err != nil {
		t.Errorf("the paused save was committed and is applied, but Save returned %v", err)
	}
	b.wantRows(21, "next")
	err := c.Save(t.Context(), logBatch(20, 25, "former"))
	wantSaveError(t, err, framework.NotSaved, true, framework.ErrFenced, "expected offset 20, found 21")
	err = c.Save(t.Context(), logBatch(20, 25, "former"))
	wantSaveError(t, err, framework.NotSaved, true, framework.ErrFenced)
	b.wantRows(21, "next")
}

func TestBigBatchIsStagedAndTheStageIsEmptiedLater(t *testing.T) {
	b := newBed(t)
	s, _ := b.open()
	c := b.claim(s)
	value := rand.Text() + strings.Repeat("v", 300)
	for i := range int64(3) {
		mustSave(t, c, logBatch(i*5000, (i+1)*5000, value))
	}
	b.wantRows(15_000, value)
	if err := c.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := b.session.Query("SELECT count(*) FROM " + stageTable).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d stage rows are left after the release (%v)", n, err)
	}
}

// incompressible returns n bytes of text.
func incompressible(n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(rand.Text())
	}
	return b.String()[:n]
}

func TestChunkThatTheServerRefusesIsDivided(t *testing.T) {
	b := newBed(t)
	tu := defaultTuning()
	tu.blobBytes = 64 << 20
	s, _ := b.sink(*b.cfg, tu)
	s.tuning.chunkBytes, s.tuning.loneBytes, s.tuning.writeBytes = 15<<20, 64<<20, 64<<20
	c := b.claim(s)
	big := incompressible(2 << 20)
	mustSave(t, c, logBatch(0, 10, big))
	b.wantRows(10, big)

	huge := logBatch(10, 11, incompressible(17<<20))
	wantSaveError(t, c.Save(t.Context(), huge), framework.NotSaved, false, framework.ErrTooLarge)
	mustSave(t, c, logBatch(10, 11, big))
	b.wantRows(11, big)
}

func TestRowDeletedAfterItWasAppliedDoesNotComeBack(t *testing.T) {
	b := newBed(t)
	s, _ := b.open()
	c := b.claim(s)
	mustSave(t, c, logBatch(0, 10, "v"))
	// The lane is idle for a second: then the save is marked.
	waitFor(t, func() bool {
		ps, err := s.Positions(t.Context(), "p")
		return err == nil && len(ps) == 1 && !ps[0].Pending
	})
	// What remains when the rows were deleted long ago: not even a tombstone.
	if err := b.session.Query("TRUNCATE log_rows").Exec(); err != nil {
		t.Fatal(err)
	}
	next, _ := b.open()
	b.claim(next)
	b.wantRows(0, "")
}

func waitFor(t *testing.T, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen within a minute")
		}
	}
}

func TestSaveAfterTheLedgerWasChangedFromOutsideIsRefused(t *testing.T) {
	b := newBed(t)
	s, _ := b.open()
	c := b.claim(s)
	mustSave(t, c, logBatch(0, 5, "v"))
	if err := b.session.Query("UPDATE " + ledgerTable + " SET next_offset = 7 WHERE pipeline = 'p' AND topic = 'in' AND partition = 0 IF EXISTS").Exec(); err != nil {
		t.Fatal(err)
	}
	err := c.Save(t.Context(), logBatch(5, 6, "v"))
	wantSaveError(t, err, framework.NotSaved, true, framework.ErrCorrupt, `pipeline "p"`, "in/0", "at offset 5", "at offset 7")
	b.wantRows(5, "v")
}

func TestCommittedSaveWhoseContentIsGoneStopsTheClaim(t *testing.T) {
	b := newBed(t)
	former, hook := b.open()
	hook.applyHook = noAnswer
	c := b.claim(former)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hook.beforeExecute = func(conditional) { cancel() }
	err := c.Save(ctx, logBatch(0, 500, strings.Repeat("v", 2000)))
	wantSaveError(t, err, framework.Saved, true, framework.ErrNotApplied)
	if err := b.session.Query("TRUNCATE " + stageTable).Exec(); err != nil {
		t.Fatal(err)
	}
	next, _ := b.open()
	if _, err := next.Claim(t.Context(), "p", in0, offsetstore.At(0)); !errors.Is(err, framework.ErrCorrupt) || !strings.Contains(err.Error(), "up to offset 500") {
		t.Errorf("Claim returned %v, want ErrCorrupt that names the offset", err)
	}
}

func TestProcessWithAnotherConsistencyIsRefused(t *testing.T) {
	b := newBed(t)
	s, _ := b.open()
	propose := framework.TopicStart{ClusterID: "c", TopicID: offsetstore.TopicID{1}, Starts: map[int32]int64{0: 5}}
	if _, err := s.Topic(t.Context(), "p", "in", propose); err != nil {
		t.Fatal(err)
	}
	cfg := *b.cfg
	cfg.Consistency = Local("datacenter1")
	other, _ := b.sink(cfg, defaultTuning())
	if _, err := other.Topic(t.Context(), "p", "in", propose); !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), "Consistency") {
		t.Errorf("Topic returned %v, want ErrConfig that names Consistency", err)
	}
}

func TestSinkOpensBeforeTheTablesExistAndWorksAfterMigrate(t *testing.T) {
	cfg := freshConfig(t)
	cfg.Tables, cfg.Schema = []AnyTable{logRows}, []string{logRowsSchema}
	if err := withKeyspace(t, cfg); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	if _, err := s.Claim(t.Context(), "p", in0, offsetstore.At(0)); !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), "Migrate") {
		t.Errorf("Claim returned %v, want ErrConfig that names Migrate", err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := s.Claim(t.Context(), "p", in0, offsetstore.At(3))
	if err != nil {
		t.Fatal(err)
	}
	mustSave(t, c, logBatch(3, 4, "v"))
}

// withKeyspace makes the keyspace of cfg, and nothing in it.
func withKeyspace(t *testing.T, cfg Config) error {
	full, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	return withSchemaSession(t.Context(), &full, "", func(s *gocql.Session) error {
		return s.Query("CREATE KEYSPACE " + quoteIdentifier(cfg.Keyspace) + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}").Exec()
	})
}

func TestNothingRunsAfterClose(t *testing.T) {
	b := newBed(t)
	ignore := goleak.IgnoreCurrent() // the bed's own session
	s, err := Open(t.Context(), *b.cfg)
	if err != nil {
		t.Fatal(err)
	}
	for p := range int32(4) {
		c, err := s.Claim(t.Context(), "p", offsetstore.TopicPartition{Topic: "in", Partition: p}, offsetstore.At(0))
		if err != nil {
			t.Fatal(err)
		}
		mustSave(t, c, logBatch(0, 2000, rand.Text()))
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	goleak.VerifyNone(t, ignore)
}

// An answer that is lost with its connection leaves the outcome unknown, and the node
// in doubt; the next claim tells which it was.
func TestAnswersLostWithTheirConnectionAreResolvedByTheNextClaim(t *testing.T) {
	for name, test := range map[string]struct {
		fate faults.Action
		at   int64
	}{"answer lost": {faults.CutAfter, 4}, "request lost": {faults.CutBefore, 2}} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			proxy := newProxy(t, b.cfg.Hosts[0])
			cfg := *b.cfg
			cfg.Hosts = []string{proxy.Addr()}
			s, hook := b.sink(cfg, defaultTuning())
			c := b.claim(s)
			mustSave(t, c, logBatch(0, 2, "v"))
			var sent atomic.Int32
			hook.beforeExecute = func(st conditional) {
				if _, ok := st.value(colSaveClaim); ok && sent.Add(1) == 1 {
					proxy.arm(test.fate, faults.Pass)
				}
			}
			wantSaveError(t, c.Save(t.Context(), logBatch(2, 4, "v")), framework.Unknown, true, framework.ErrUnavailable)
			c = b.claim(s)
			if at := c.Progress().Position.Offset; at != test.at {
				t.Errorf("the ledger is at %d, want %d", at, test.at)
			}
			b.wantRows(test.at, "v")
			if proxy.hits() != 1 || sent.Load() != 1 {
				t.Errorf("%d connections were cut and %d commits sent, want one each", proxy.hits(), sent.Load())
			}
			hook.beforeExecute = nil
			mustSave(t, c, logBatch(test.at, 6, "v"))
			b.wantRows(6, "v")
		})
	}
}

func TestTableThatWasMadeAgainIsNotWrittenTo(t *testing.T) {
	b := newBed(t)
	s, hook := b.open()
	c := b.claim(s)
	mustSave(t, c, logBatch(0, 2, "v"))
	// One save is committed, and not applied before the table is made again.
	hook.applyHook = noAnswer
	ctx, cancel := context.WithCancel(t.Context())
	hook.beforeExecute = func(conditional) { cancel() }
	wantSaveError(t, c.Save(ctx, logBatch(2, 4, "v")), framework.Saved, true, framework.ErrNotApplied)
	idle, _ := b.open()
	other, err := idle.Claim(t.Context(), "p", offsetstore.TopicPartition{Topic: "in", Partition: 1}, offsetstore.At(0))
	if err != nil {
		t.Fatal(err)
	}

	for _, cql := range []string{"DROP TABLE log_rows", logRowsSchema} {
		if err := b.session.Query(cql).Exec(); err != nil {
			t.Fatal(err)
		}
	}
	idle.checkMu.Lock()
	idle.verified = time.Time{} // as if it was long ago
	idle.checkMu.Unlock()
	wantSaveError(t, other.Save(t.Context(), logBatch(0, 2, "v")), framework.NotSaved, false, framework.ErrConfig, "log_rows")
	next, _ := b.open() // it knows the new table, and the save the old one
	if _, err := next.Claim(t.Context(), "p", in0, offsetstore.At(0)); !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), "log_rows") {
		t.Errorf("Claim returned %v, want ErrConfig that names the table", err)
	}
	b.wantRows(0, "")
}
