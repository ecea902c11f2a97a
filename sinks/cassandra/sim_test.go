package cassandra

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// The simulation: a few processes fight for one lane over a database that loses
// requests, loses answers, and executes statements long after they were given up.
// One goroutine, the driver, decides by a seed what happens next; all others only
// run while it waits. So a seed always gives the same history.

var (
	simSeeds = flag.Int("sim.seeds", 250, "how many histories to simulate")
	simSeed  = flag.Int("sim.seed", -1, "simulate only this history, and log it")
)

// errLost is an answer that never came.
var errLost = errors.New("no answer")

// simOp is one statement of a process.
type simOp struct {
	proc   *simProc
	name   string // also its place among the pending ones
	writes bool
	commit bool // it is a save
	run    func() any
	answer chan any // the result of run, or an error
}

// simWorld is the network, the database, and the record of what is true.
type simWorld struct {
	t       *testing.T
	rng     *rand.Rand
	db      *fakeDB
	tables  *fakeTables
	lane    laneKey
	faults  float64 // share of statements that go wrong
	mu      sync.Mutex
	pending []*simOp
	late    []*simOp   // given up by their senders, and still on their way
	held    []heldBack // executed, with the answer held back
	chain   []simCommit
	sent    map[string]string // (claim, number) to statement
	results []simResult
	resets  []simReset
	procs   []*simProc
	totals  simTotals
	broken  simBroken // what is wrong with the processes, the zero value: nothing
	faulty  []string  // the violations found
	trace   func(format string, args ...any)
}

type heldBack struct {
	op     *simOp
	result any
	until  time.Time
}

// simCommit is a save, or a reset, that took effect.
type simCommit struct {
	batch     string
	from, to  int64
	seq       int64
	mutations []mutation
	reset     bool
	drop      bool // the reset began a new generation of the state
}

// simResult is what Save said of a batch.
type simResult struct {
	batch string
	err   error
}

// simProc is one process.
type simProc struct {
	w       *simWorld
	id      int
	rng     *rand.Rand
	engine  *engine
	dead    bool
	allowed time.Time // when it last sent a statement that can allow it to apply
	stop    bool
	done    bool
	hidden  time.Duration // see simBroken.hideWaits
	kept    string        // the state of the last batch, for a process that is broken so
}

// failf records a violation.
func (w *simWorld) failf(format string, args ...any) {
	w.faulty = append(w.faulty, fmt.Sprintf(format, args...))
}

// simStore is the database as one process sees it.
type simStore struct{ p *simProc }

// call hands a statement to the driver and waits for what it decides.
func (s simStore) call(ctx context.Context, name string, writes bool, run func() any) (any, error) {
	w := s.p.w
	op := &simOp{proc: s.p, name: fmt.Sprintf("p%d %s", s.p.id, name), writes: writes, commit: strings.HasPrefix(name, "commit "), run: run, answer: make(chan any, 1)}
	w.mu.Lock()
	if s.p.dead {
		w.mu.Unlock()
		return nil, errLost
	}
	w.pending = append(w.pending, op)
	w.mu.Unlock()
	select {
	case v := <-op.answer:
		if err, ok := v.(error); ok {
			return nil, err
		}
		return v, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s simStore) readLedger(ctx context.Context, lane laneKey) (*ledgerRow, error) {
	s.p.allow()
	v, err := s.call(ctx, "read", false, func() any { return s.p.w.db.readLedger(lane) })
	if err != nil {
		return nil, err
	}
	return v.(*ledgerRow), nil
}

func (s simStore) execute(ctx context.Context, st conditional) (bool, error) {
	s.p.allow()
	s.p.w.recordSent(st)
	name := "execute "
	if st.isCommit() {
		name = "commit "
	}
	v, err := s.call(ctx, name+describe(st), true, func() any { return s.p.w.execute(st) })
	if err != nil {
		return false, err
	}
	return v.(bool), nil
}

// allow records when a statement was sent that may give a lease.
func (p *simProc) allow() {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.allowed = time.Now()
}

func (s simStore) writeChunk(ctx context.Context, key stageKey, n int, data []byte) error {
	_, err := s.call(ctx, fmt.Sprintf("chunk %d/%d", key.seq, n), true, func() any { s.p.w.db.writeChunk(key, n, data); return nil })
	return err
}

func (s simStore) readChunks(ctx context.Context, key stageKey) (map[int][]byte, error) {
	v, err := s.call(ctx, fmt.Sprintf("chunks %d", key.seq), false, func() any { return s.p.w.db.readChunks(key) })
	if err != nil {
		return nil, err
	}
	return v.(map[int][]byte), nil
}

func (s simStore) deleteChunks(ctx context.Context, key stageKey) error {
	_, err := s.call(ctx, fmt.Sprintf("delete chunks %x/%d", key.claim[:2], key.seq), true, func() any { s.p.w.db.deleteChunks(key); return nil })
	return err
}

func (s simStore) apply(ctx context.Context, group []mutation) error {
	w := s.p.w
	w.mu.Lock()
	if age := time.Since(s.p.allowed); age > s.p.engine.tuning.applyLease {
		w.failf("I9: process %d applies %v after it was allowed to", s.p.id, age)
	}
	w.mu.Unlock()
	group = slices.Clone(group)
	_, err := s.call(ctx, fmt.Sprintf("apply %d", group[0].timestamp), true, func() any { w.db.apply(group); return nil })
	return err
}

func (s simStore) readState(ctx context.Context, b stateBucket, keys [][]byte) (map[string][]byte, error) {
	v, err := s.call(ctx, fmt.Sprintf("state %d", b.bucket), false, func() any { return s.p.w.db.readState(b, keys) })
	if err != nil {
		return nil, err
	}
	return v.(map[string][]byte), nil
}

func describe(st conditional) string {
	var b strings.Builder
	for _, s := range append(slices.Clone(st.set), st.when...) {
		switch v := s.value.(type) {
		case gocql.UUID:
			fmt.Fprintf(&b, " %s=%x", s.column, v[:2])
		case []byte:
			fmt.Fprintf(&b, " %s=%.8x", s.column, v)
		default:
			fmt.Fprintf(&b, " %s=%v", s.column, v)
		}
	}
	return b.String()
}

// recordSent checks I6 (one content for each claim and number) and that a save
// never goes out without its three conditions.
func (w *simWorld) recordSent(st conditional) {
	seq, ok := st.value(colSeq)
	if !ok || st.create {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	claim, _ := st.value(colSaveClaim)
	key, text := fmt.Sprint(claim, seq), describe(st)+fmt.Sprint(st.set)
	if before, ok := w.sent[key]; ok && before != text {
		w.failf("I6: two contents under %s:\n%s\n%s", key, before, text)
	}
	w.sent[key] = text
}

// isReset tells a reset from the other conditional statements.
func (st conditional) isReset() bool {
	_, gen := st.value(colGen)
	return gen && !st.create
}

// isCommit tells a save from the other conditional statements.
func (st conditional) isCommit() bool {
	_, seq := st.value(colSeq)
	return seq && !st.create && !st.isReset()
}

func (st conditional) value(column string) (any, bool) {
	for _, s := range st.set {
		if s.column == column {
			return s.value, true
		}
	}
	return nil, false
}

// execute runs a conditional statement and checks what it changed.
func (w *simWorld) execute(st conditional) bool {
	before := w.db.readLedger(st.lane)
	if !w.db.execute(st) {
		return false
	}
	after := w.db.readLedger(st.lane)
	if err := after.check(st.lane); err != nil {
		w.failf("I10: %v", err)
	}
	if before == nil {
		return true
	}
	if after.claim != before.claim {
		w.countTakeover(before.claim)
	}
	if after.epoch < before.epoch || after.seq < before.seq || after.applied < before.applied || after.highTS < before.highTS {
		w.failf("I10: the row went back: %+v to %+v", before, after)
	}
	switch {
	case st.isReset():
		w.wasReset(before, after)
	case after.seq > before.seq:
		w.committed(before, after)
	case after.position != before.position || after.gen != before.gen:
		w.failf("I1: the position moved without a save: %+v to %+v", before, after)
	}
	return true
}

// committed checks and records a save.
func (w *simWorld) committed(before, after *ledgerRow) {
	c := simCommit{batch: string(after.lane), from: before.position.Offset, to: after.position.Offset, seq: after.seq}
	if after.claim != before.claim || after.saveClaim != before.claim {
		w.failf("I2: save %d is not the owner's", c.seq)
	}
	if after.bytes > 0 {
		c.mutations = w.content(after)
	}
	if len(c.mutations) > 0 {
		if low := c.mutations[0].timestamp; low <= before.highTS {
			w.failf("I5: save %d begins at timestamp %d, the one before reached %d", c.seq, low, before.highTS)
		}
		if high := c.mutations[len(c.mutations)-1].timestamp; high != after.highTS {
			w.failf("I5: save %d reaches timestamp %d, the row says %d", c.seq, high, after.highTS)
		}
	}
	if n := len(w.chain); n > 0 {
		w.checkApplied("I4", w.chain[n-1])
	}
	w.chain = append(w.chain, c)
	w.totals["saves"]++
}

// wasReset checks and records a reset.
func (w *simWorld) wasReset(before, after *ledgerRow) {
	if after.claim == before.claim || after.seq <= before.seq || after.pending() {
		w.failf("I2: a reset does not fence: %+v to %+v", before, after)
	}
	if before.pending() {
		w.failf("I4: a reset replaces save %d, which is pending", before.seq)
	}
	if n := len(w.chain); n > 0 {
		w.checkApplied("I4", w.chain[n-1])
	}
	w.chain = append(w.chain, simCommit{
		batch: resetName(int(after.claim[0])), from: before.position.Offset, to: after.position.Offset,
		seq: after.seq, reset: true, drop: after.gen != before.gen,
	})
	w.totals["resets"]++
}

// content decodes the last save of row, wherever it is (I7).
func (w *simWorld) content(row *ledgerRow) []mutation {
	chunks := [][]byte{row.body}
	if row.chunks > 0 {
		stage := w.db.stage[stageKey{w.lane, row.saveClaim, row.seq}]
		chunks = nil
		for n := range row.chunks {
			chunks = append(chunks, stage[n])
		}
	}
	ms, err := decodeBlob(context.Background(), chunks, row.contentSum(), w.tables)
	if err != nil {
		w.failf("I7: save %d cannot be read: %v", row.seq, err)
	}
	return ms
}

// checkApplied checks that every write of c is in the tables, or a newer one.
func (w *simWorld) checkApplied(rule string, c simCommit) {
	for i := range c.mutations {
		m := &c.mutations[i]
		row := w.db.tables[m.rowKey()]
		if row == nil {
			w.failf("%s: save %d: a row was not written", rule, c.seq)
			return
		}
		for n, cell := range m.fakeCells() {
			if cell.head != headUnset && max(row.cells[n].ts, row.deleted) < m.timestamp {
				w.failf("%s: save %d: a cell was not written", rule, c.seq)
				return
			}
		}
		if m.op == opDelete && row.deleted < m.timestamp {
			w.failf("%s: save %d: a delete was not written", rule, c.seq)
			return
		}
	}
}

// step lets one thing happen.
func (w *simWorld) step() {
	w.deliverHeld(false)
	w.settle()
	if !w.act(w.rng.Float64()) {
		w.pass()
	}
}

// act does something with a statement, or reports that time has to pass.
func (w *simWorld) act(roll float64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case len(w.late) > 0 && roll < 0.05:
		i := w.rng.IntN(len(w.late))
		op := w.late[i]
		w.late = slices.Delete(w.late, i, i+1)
		w.trace("late: %s -> %v", op.name, op.run())
	case len(w.pending) > 0 && roll < 0.93:
		w.deliver()
	default:
		return false
	}
	return true
}

// settle lets all goroutines run until they wait, and puts what they have sent in
// an order that does not depend on them.
func (w *simWorld) settle() {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortStableFunc(w.pending, func(a, b *simOp) int { return strings.Compare(a.name, b.name) })
}

// deliver decides what becomes of one statement. mu is held; the sender cannot
// notice before it is released.
func (w *simWorld) deliver() {
	i := w.rng.IntN(len(w.pending))
	op := w.pending[i]
	w.pending = slices.Delete(w.pending, i, i+1)
	if w.rng.Float64() >= w.faults {
		v := op.run()
		w.totals.countAnswer(op, v)
		w.trace("%s -> %v", op.name, v)
		op.answer <- orOK(v)
		return
	}
	fault := w.rng.IntN(4)
	w.totals.countFault(op, fault)
	switch fault {
	case 0: // the request is lost
		w.trace("%s: lost", op.name)
		op.answer <- errLost
	case 1: // the answer is lost
		w.trace("%s: answer lost (%v)", op.name, op.run())
		op.answer <- errLost
	case 2: // the sender gives up, the statement is still on its way
		w.trace("%s: delayed", op.name)
		w.late = append(w.late, op)
		op.answer <- errLost
	case 3: // the sender is paused before it reads the answer
		v := op.run()
		pause := time.Duration(w.rng.Int64N(int64(15 * time.Minute)))
		w.trace("%s: answer (%v) held back %v", op.name, v, pause)
		w.held = append(w.held, heldBack{op, v, time.Now().Add(pause)})
	}
}

func orOK(v any) any {
	if v == nil {
		return struct{}{}
	}
	return v
}

func (w *simWorld) deliverHeld(all bool) {
	w.held = slices.DeleteFunc(w.held, func(h heldBack) bool {
		if !all && time.Now().Before(h.until) {
			return false
		}
		h.op.answer <- orOK(h.result)
		return true
	})
}

// pass lets time pass, mostly little.
func (w *simWorld) pass() {
	d := time.Duration(w.rng.Int64N(int64(2 * time.Second)))
	if w.rng.IntN(20) == 0 {
		d = time.Duration(w.rng.Int64N(int64(12 * time.Minute)))
	}
	time.Sleep(d)
}

// crash ends a process: what it had sent may still arrive.
func (w *simWorld) crash(p *simProc) {
	w.trace("p%d crashes", p.id)
	w.totals["crashes"]++
	w.mu.Lock()
	p.dead = true
	w.pending = slices.DeleteFunc(w.pending, func(op *simOp) bool {
		if op.proc == p && op.writes && w.rng.IntN(2) == 0 {
			w.late = append(w.late, op)
		}
		return op.proc == p
	})
	w.held = slices.DeleteFunc(w.held, func(h heldBack) bool { return h.op.proc == p })
	w.mu.Unlock()
	p.engine.close(framework.ErrClosed)
}

// simRow is a row of the simulated pipeline's output.
type simRow struct {
	Part  int32            `cql:"part,partition"`
	Off   int64            `cql:"off,clustering"`
	Value Optional[string] `cql:"value"`
	Other Optional[string] `cql:"other"`
}

var simRows = NewTable[simRow]("rows")

// simClock gives each process a clock that is wrong by up to two minutes.
func simClock(rng *rand.Rand) clock {
	skew := time.Duration(rng.Int64N(int64(4*time.Minute))) - 2*time.Minute
	return clock{now: func() time.Time { return time.Now().Add(skew) }}
}

func newSimWorld(t *testing.T, seed uint64) *simWorld {
	w := &simWorld{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), db: newFakeDB(), tables: newFakeTables(simRows),
		lane: laneKey{"sim", "in", 0}, sent: map[string]string{}, totals: simTotals{},
		trace: func(string, ...any) {},
	}
	w.faults = []float64{0.02, 0.1, 0.3}[w.rng.IntN(3)]
	return w
}

// newProc makes a process, which has not begun yet.
func (w *simWorld) newProc() *simProc {
	id := len(w.procs)
	p := &simProc{w: w, id: id, rng: rand.New(rand.NewPCG(w.rng.Uint64(), uint64(id)))}
	tu := defaultTuning()
	tu.inlineBytes, tu.chunkBytes = 300, 200 // so that some saves are staged
	p.engine = newEngine(w.broken.wrap(p), w.tables, w.broken.clock(p, simClock(w.rng)), tu, fmt.Sprint("p", id), slog.New(slog.DiscardHandler))
	n := uint32(0)
	p.engine.token = func() (gocql.UUID, error) {
		n++
		return gocql.UUID{byte(id), byte(n), byte(n >> 8)}, nil
	}
	w.procs = append(w.procs, p)
	return p
}

// run is what the runner does with a lane: claim, save, and claim again.
func (p *simProc) run() {
	defer func() { p.w.mu.Lock(); p.done = true; p.w.mu.Unlock() }()
	for !p.stopped() {
		c, err := p.claim()
		if err != nil {
			_ = p.engine.clock.sleep(p.engine.closing, time.Duration(p.rng.Int64N(int64(time.Minute))))
			continue
		}
		p.useClaim(c)
		if p.rng.IntN(2) == 0 {
			_ = p.engine.clock.sleep(p.engine.closing, time.Duration(p.rng.Int64N(int64(2*time.Minute))))
		}
	}
}

// claim is what Sink.Claim does.
func (p *simProc) claim() (*claim, error) {
	ctx, end, err := p.engine.begin(context.Background())
	if err != nil {
		return nil, err
	}
	defer end()
	return p.engine.claimLane(ctx, p.w.lane, offsetstore.At(10))
}

func (p *simProc) stopped() bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.stop || p.dead
}

// useClaim saves until the claim is spent or given up.
func (p *simProc) useClaim(c *claim) {
	at, saves := c.Progress(), p.rng.IntN(8)
	for i := 0; i < saves && !p.stopped(); i++ {
		b, err := p.batch(c, at, i)
		if err != nil {
			return
		}
		ctx, cancel := context.WithCancel(context.Background())
		if p.rng.IntN(10) == 0 {
			time.AfterFunc(time.Duration(p.rng.Int64N(int64(3*time.Second))), cancel)
		}
		err = c.Save(ctx, b)
		cancel()
		p.w.mu.Lock()
		if !p.dead {
			p.w.trace("p%d: save %s: %v", p.id, b.To.Lane, err)
			p.w.results = append(p.w.results, simResult{string(b.To.Lane), err})
		}
		p.w.mu.Unlock()
		var se *framework.SaveError
		if errors.As(err, &se) && se.ClaimSpent {
			return
		}
		if err == nil {
			at = b.To
		}
		if p.rng.IntN(4) == 0 {
			_ = p.engine.clock.sleep(p.engine.closing, time.Duration(p.rng.Int64N(int64(3*time.Second))))
		}
	}
	_ = c.Release(context.Background())
}

// batch makes a batch of a handler that is not even deterministic: another owner
// would write other values for the same records. Its state is the number of
// records so far.
func (p *simProc) batch(c *claim, at framework.Progress, i int) (*framework.Batch[Write], error) {
	name := fmt.Sprintf("p%d-%x-%d", p.id, c.token[1:3], i)
	n := max(0, p.rng.IntN(9)-2) // batches that do not move the position are often
	b := &framework.Batch[Write]{From: at, To: framework.Progress{Position: offsetstore.At(at.Position.Offset + int64(n)), Lane: []byte(name)}}
	for o := at.Position.Offset; o < b.To.Position.Offset; o++ {
		row := simRow{Part: int32(o % 3), Off: o, Value: Set(fmt.Sprintf("%s@%d", name, o))}
		b.Writes = append(b.Writes, simRows.Insert(row))
		old := simRow{Part: int32(o % 3), Off: o - 3*int64(p.rng.IntN(3)), Other: Set(name + strings.Repeat("x", p.rng.IntN(80)))}
		switch p.rng.IntN(5) {
		case 0:
			b.Writes = append(b.Writes, simRows.Delete(old))
		case 1:
			b.Writes = append(b.Writes, simRows.Upsert(old))
		}
	}
	if n == 0 {
		return b, nil
	}
	before, err := p.count(c)
	if err != nil {
		return nil, err
	}
	p.kept = fmt.Sprint(before + n)
	b.State = append(b.State, framework.StateEntry{StateKey: countKey, Value: []byte(p.kept)})
	return b, nil
}

var countKey = framework.StateKey{Operator: "count", Key: []byte("k")}

// count returns the number of records so far.
func (p *simProc) count(c *claim) (n int, err error) {
	old, err := c.Load(context.Background(), []framework.StateKey{countKey})
	if err != nil {
		return 0, err
	}
	text := string(old[0])
	if p.w.broken.keepState && p.kept != "" {
		text = p.kept
	}
	if text != "" {
		_, err = fmt.Sscan(text, &n)
	}
	return n, err
}

// simulate runs one history and returns the violations, and what happened in it.
func simulate(t *testing.T, seed uint64, broken simBroken, trace bool) (faulty []string, totals simTotals) {
	synctest.Test(t, func(t *testing.T) {
		w := newSimWorld(t, seed)
		w.broken = broken
		if trace {
			w.trace = func(f string, args ...any) {
				t.Logf("%v "+f, append([]any{time.Now().Format("04:05.000")}, args...)...)
			}
		}
		for range 2 + w.rng.IntN(2) {
			go w.newProc().run()
		}
		for range 250 {
			w.settle()
			w.happen()
			w.step()
		}
		w.finish()
		faulty, totals = w.faulty, w.sum()
	})
	return faulty, totals
}

// happen lets a process crash and another begin, or an operator step in, rarely.
func (w *simWorld) happen() {
	switch w.rng.IntN(240) {
	case 0, 1:
		w.crash(w.procs[w.rng.IntN(len(w.procs))])
		go w.newProc().run()
	case 2:
		go w.newProc().flush()
	case 3, 4:
		go w.newProc().reset()
	}
}

// finish heals the network, lets everything end, lets a last owner claim, and
// checks the rest of the invariants.
func (w *simWorld) finish() {
	w.faults = 0
	w.mu.Lock()
	for _, p := range w.procs {
		p.stop = true
	}
	w.mu.Unlock()
	w.drain(func() bool { return !slices.ContainsFunc(w.procs, func(p *simProc) bool { return !p.done }) })
	for _, op := range w.late {
		op.run()
	}
	var end framework.Progress
	err := errors.New("it does not end")
	last := w.newProc()
	go last.once(func() {
		c, failed := last.claim()
		if err = failed; err == nil {
			end = c.Progress()
			err = c.Release(context.Background())
		}
	})
	w.drain(func() bool { return last.done })
	if err != nil {
		w.failf("I7: the last claim: %v", err)
	} else {
		w.checkChain(end)
		w.checkResults()
		w.checkResets()
		w.checkTables()
	}
	w.end()
}

// end lets every process end, whatever it waits for.
func (w *simWorld) end() {
	for _, p := range w.procs {
		go p.engine.shut(context.Background(), func() {})
	}
	w.drain(func() bool {
		return !slices.ContainsFunc(w.procs, func(p *simProc) bool { return !ended_(p.engine) || !p.done })
	})
}

func ended_(e *engine) bool {
	select {
	case <-e.ended:
		return true
	default:
		return false
	}
}

// drain delivers everything until done.
func (w *simWorld) drain(done func() bool) {
	for range 100_000 {
		w.deliverHeld(true)
		w.settle()
		w.mu.Lock()
		busy, stop := len(w.pending) > 0, done()
		if busy {
			w.deliver()
		}
		w.mu.Unlock()
		switch {
		case busy:
		case stop:
			return
		default:
			time.Sleep(time.Second)
		}
	}
	w.failf("the processes do not come to an end")
	for _, p := range w.procs {
		w.crash(p)
	}
}

// checkChain checks I1: the saves join end to start, up to the position.
func (w *simWorld) checkChain(end framework.Progress) {
	at, seq := int64(10), int64(0)
	for _, c := range w.chain {
		if c.from != at || c.to < c.from && !c.reset || c.seq <= seq {
			w.failf("I1: save %d covers %d to %d, the one before (%d) ended at %d", c.seq, c.from, c.to, seq, at)
		}
		at, seq = c.to, c.seq
	}
	if end.Position.Offset != at {
		w.failf("I1: the position is %d, the saves end at %d", end.Position.Offset, at)
	}
	if row := w.db.ledger[w.lane]; row.pending() {
		w.failf("I3: the last owner has released, and the save is still pending: %+v", row)
	}
}

// checkResults checks I8: what Save said is true.
func (w *simWorld) checkResults() {
	count := map[string]int{}
	for _, c := range w.chain {
		count[c.batch]++
	}
	for _, r := range w.results {
		n := count[r.batch]
		var se *framework.SaveError
		switch {
		case r.err == nil && n != 1:
			w.failf("I8: batch %s: Save returned nil, it is in the chain %d times", r.batch, n)
		case r.err != nil && !errors.As(r.err, &se):
			w.failf("I8: batch %s: not a SaveError: %v", r.batch, r.err)
		case se != nil && (se.Outcome == framework.Saved && n != 1 || se.Outcome == framework.NotSaved && n != 0 || n > 1):
			w.failf("I8: batch %s: Save said %v, it is in the chain %d times", r.batch, r.err, n)
		case errors.Is(r.err, framework.ErrCorrupt):
			w.failf("I7: batch %s: nothing was damaged, and Save said: %v", r.batch, r.err)
		}
	}
}

// checkTables checks I3: the tables are what the committed saves give, one after
// the other, and the state counts every record once.
func (w *simWorld) checkTables() {
	want := newFakeDB()
	ts, records := int64(0), int64(0)
	for _, c := range w.chain {
		w.checkApplied("I3", c)
		for i := range c.mutations {
			ts++
			want.mutate(&c.mutations[i], ts)
		}
		switch {
		case c.drop:
			records = 0
		case !c.reset:
			records += c.to - c.from
		}
	}
	if got, want := w.db.read(), want.read(); !slices.Equal(got, want) {
		w.failf("I3: the tables are not what was committed:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	w.checkState(records)
}

// checkState checks that the state counts every record once.
func (w *simWorld) checkState(records int64) {
	bucket := stateBucket{lane: w.lane, operator: "count", gen: w.db.ledger[w.lane].gen, bucket: bucketOf(countKey.Key)}
	got, ok := w.db.readState(bucket, [][]byte{countKey.Key})["k"]
	if want := fmt.Sprint(records); records > 0 && string(got) != want || records == 0 && ok {
		w.failf("I3: the state counts %q records, %d were saved", got, records)
	}
}

func TestProtocolKeepsItsInvariantsOnAnUnreliableDatabase(t *testing.T) {
	if *simSeed >= 0 {
		faulty, totals := simulate(t, uint64(*simSeed), simBroken{}, true)
		for _, f := range faulty {
			t.Error(f)
		}
		t.Logf("%+v", totals)
		return
	}
	totals := simTotals{}
	for seed := range *simSeeds {
		faulty, some := simulate(t, uint64(seed), simBroken{}, false)
		totals.add(some)
		for _, f := range faulty {
			t.Error(f)
		}
		if t.Failed() {
			t.Fatalf("history %d; see it with -sim.seed=%d", seed, seed)
		}
	}
	totals.check(t)
}
