package cassandra

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// simProc is one process. What changes is guarded by the world's mu.
type simProc struct {
	w       *simWorld
	id      int
	engine  *engine
	dead    bool
	stop    bool
	lives   int // goroutines of launch that have not ended
	spawned int
	paused  time.Time               // until then: it does nothing
	allowed map[laneKey]time.Time   // when it last sent a statement that can allow it to apply
	hidden  time.Duration           // see simBroken.hideWaits
	kept    map[laneKey]*simUse     // see simBroken.keepState
	data    map[laneKey]*simLaneOld // see simBroken.ownLane
}

type simLaneOld struct{ lane []byte }

func (p *simProc) name() string { return fmt.Sprint("p", p.id) }

// newProc makes a process, which has not begun yet.
func (w *simWorld) newProc() *simProc {
	p := &simProc{w: w, id: len(w.procs), allowed: map[laneKey]time.Time{}, kept: map[laneKey]*simUse{}, data: map[laneKey]*simLaneOld{}}
	tu := defaultTuning()
	tu.inlineBytes, tu.chunkBytes = 300, 200 // so that some saves are staged
	c := newSimClock(w.rng.Uint64())
	p.engine = newEngine(w.broken.wrap(p), w.tables, w.broken.clock(p, clock{now: c.now, wait: p.sleep}), tu, p.name(), slog.New(slog.DiscardHandler))
	p.engine.spawn = p.spawn
	n := uint32(0)
	p.engine.token = func() (gocql.UUID, error) {
		w.mu.Lock() // after a crash goroutines run at once
		defer w.mu.Unlock()
		n++
		return gocql.UUID{byte(p.id), byte(n), byte(n >> 8)}, nil
	}
	w.procs = append(w.procs, p)
	return p
}

// launch starts a goroutine of the process. Call it while everything stands still.
func (p *simProc) launch(name string, f func()) {
	op := &simOp{proc: p, name: p.name() + " begins: " + name, kind: simTurn, answer: make(chan any, 1)}
	p.w.waiting = append(p.w.waiting, op)
	p.lives++
	go func() {
		defer func() { p.w.mu.Lock(); p.lives--; p.w.mu.Unlock() }()
		if _, lost := (<-op.answer).(error); lost || p.engine.enter() != nil {
			return
		}
		defer p.engine.running.Done()
		f()
	}()
}

// spawn starts a goroutine on behalf of one.
func (p *simProc) spawn(f func()) {
	p.w.mu.Lock()
	p.spawned++
	op := &simOp{proc: p, name: fmt.Sprintf("p%d goroutine %d", p.id, p.spawned), kind: simTurn, answer: make(chan any, 1)}
	p.w.mu.Unlock()
	alive := p.enqueue(op)
	go func() {
		if alive {
			<-op.answer
		}
		f()
	}()
}

// enqueue puts op before the driver, unless the process is dead.
func (p *simProc) enqueue(op *simOp) bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if p.dead {
		return false
	}
	p.w.arrivals = append(p.w.arrivals, op)
	return true
}

// await waits for what the driver decides on op, or until ctx ends.
func (p *simProc) await(ctx context.Context, op *simOp) (any, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	op.proc, op.answer = p, make(chan any, 1)
	if !p.enqueue(op) {
		return nil, errLost
	}
	select {
	case v := <-op.answer:
		if err, ok := v.(error); ok {
			return nil, err
		}
		return v, nil
	case <-ctx.Done():
	}
	// Others may have been woken by the same cancel: each in its turn.
	p.w.mu.Lock()
	op.gone = true
	p.w.mu.Unlock()
	turn := &simOp{proc: p, name: op.name + ": cancelled", kind: simTurn, answer: make(chan any, 1)}
	if p.enqueue(turn) {
		<-turn.answer
	}
	return nil, ctx.Err()
}

// sleep is the sleep of the process's clock.
func (p *simProc) sleep(ctx context.Context, d time.Duration) error {
	p.w.mu.Lock()
	p.spawned++
	name := fmt.Sprintf("%s sleeps %v (%d)", p.place(ctx), d, p.spawned)
	p.w.mu.Unlock()
	if _, err := p.await(ctx, &simOp{name: name, kind: simSleep, due: time.Now().Add(d)}); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	return nil
}

// laneOf is the key of the lane in the contexts of its calls.
type laneOf struct{}

func (p *simProc) context(l *simLane) context.Context {
	return context.WithValue(context.Background(), laneOf{}, l)
}

// place names the process, and the lane for which ctx was made.
func (p *simProc) place(ctx context.Context) string {
	if l, ok := ctx.Value(laneOf{}).(*simLane); ok {
		return fmt.Sprintf("p%d/%d", p.id, l.key.partition)
	}
	return p.name()
}

// simStore is the database as one process sees it.
type simStore struct{ p *simProc }

// call hands a statement to the driver and waits for what it decides.
func (s simStore) call(ctx context.Context, lane laneKey, writes bool, name string, run func() any) (any, error) {
	name = fmt.Sprintf("p%d/%d %s", s.p.id, lane.partition, name)
	return s.p.await(ctx, &simOp{name: name, writes: writes, commit: strings.Contains(name, " commit "), sent: time.Now(), run: run})
}

func (s simStore) readLedger(ctx context.Context, lane laneKey) (*ledgerRow, error) {
	s.p.allow(lane)
	v, err := s.call(ctx, lane, false, "read", func() any { return s.p.w.db.readLedger(lane) })
	if err != nil {
		return nil, err
	}
	return v.(*ledgerRow), nil
}

func (s simStore) execute(ctx context.Context, st conditional) (bool, error) {
	s.p.allow(st.lane)
	name, text := "execute", describe(st)
	if st.isCommit() {
		name = "commit"
	}
	s.p.w.recordSent(st, text)
	v, err := s.call(ctx, st.lane, true, name+text, func() any { return s.p.w.executed(st) })
	if err != nil {
		s.p.w.unanswered(st)
		return false, err
	}
	return v.(bool), nil
}

// allow records when a statement was sent that may give a lease.
func (p *simProc) allow(lane laneKey) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.allowed[lane] = time.Now()
}

func (s simStore) writeChunk(ctx context.Context, key stageKey, n int, data []byte) error {
	name := fmt.Sprintf("chunk %x/%d/%d", key.claim[:3], key.seq, n)
	_, err := s.call(ctx, key.lane, true, name, func() any { s.p.w.db.writeChunk(key, n, data); return nil })
	return err
}

func (s simStore) readChunks(ctx context.Context, key stageKey) (map[int][]byte, error) {
	v, err := s.call(ctx, key.lane, false, fmt.Sprintf("chunks %x/%d", key.claim[:3], key.seq), func() any { return s.p.w.db.readChunks(key) })
	if err != nil {
		return nil, err
	}
	return v.(map[int][]byte), nil
}

func (s simStore) deleteChunks(ctx context.Context, key stageKey) error {
	name := fmt.Sprintf("delete chunks %x/%d", key.claim[:3], key.seq)
	_, err := s.call(ctx, key.lane, true, name, func() any { s.p.w.db.deleteChunks(key); return nil })
	return err
}

func (s simStore) apply(ctx context.Context, group []mutation) error {
	w, lane := s.p.w, ctx.Value(laneOf{}).(*simLane).key
	w.mu.Lock()
	age := time.Since(s.p.allowed[lane])
	w.mu.Unlock()
	if age > s.p.engine.tuning.applyLease {
		w.failf("I9: process %d applies %v after it was allowed to", s.p.id, age)
	}
	group = slices.Clone(group)
	name := fmt.Sprintf("apply %x %d to %d", group[0].partition(), group[0].timestamp, group[len(group)-1].timestamp)
	_, err := s.call(ctx, lane, true, name, func() any { w.db.apply(group); return nil })
	return err
}

func (s simStore) readState(ctx context.Context, b stateBucket, keys [][]byte) (map[string][]byte, error) {
	name := fmt.Sprintf("state %s %d %d", b.operator, b.window, b.bucket)
	v, err := s.call(ctx, b.lane, false, name, func() any { return s.p.w.db.readState(b, keys) })
	if err != nil {
		return nil, err
	}
	return v.(map[string][]byte), nil
}

func (s simStore) readTopic(ctx context.Context, pipeline, topic string) (*topicRow, error) {
	v, err := s.call(ctx, ctx.Value(laneOf{}).(*simLane).key, false, "read topic", func() any { return s.p.w.db.readTopic(pipeline, topic) })
	if err != nil {
		return nil, err
	}
	return v.(*topicRow), nil
}

func (s simStore) insertTopic(ctx context.Context, pipeline, topic string, row topicRow) error {
	_, err := s.call(ctx, ctx.Value(laneOf{}).(*simLane).key, true, fmt.Sprint("store topic ", row.start.Starts),
		func() any { s.p.w.db.insertTopic(pipeline, topic, row); return nil })
	return err
}

func describe(st conditional) string {
	var b strings.Builder
	for _, s := range append(slices.Clone(st.set), st.when...) {
		switch v := s.value.(type) {
		case gocql.UUID:
			fmt.Fprintf(&b, " %s=%x", s.column, v[:3])
		case []byte:
			fmt.Fprintf(&b, " %s=%.8x", s.column, v)
		case time.Time:
			fmt.Fprintf(&b, " %s=%d", s.column, v.UnixNano())
		default:
			fmt.Fprintf(&b, " %s=%v", s.column, v)
		}
	}
	return b.String()
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

// begin lets the process live: it does with each lane what the runner does, claim,
// save, and claim again.
func (p *simProc) begin() {
	for _, l := range p.w.lanes {
		rng := rand.New(rand.NewPCG(p.w.rng.Uint64(), uint64(p.id)))
		p.launch(fmt.Sprint("lane ", l.key.partition), func() { p.live(l, rng) })
	}
}

func (p *simProc) live(l *simLane, rng *rand.Rand) {
	ctx, end := context.WithCancel(p.context(l))
	defer end()
	defer context.AfterFunc(p.engine.closing, end)()
	for !p.stopped() {
		c, err := p.claim(p.context(l), l)
		if err != nil {
			p.w.countClaimError(err)
			_ = p.sleep(ctx, time.Duration(rng.Int64N(int64(time.Minute))))
			continue
		}
		u := &simUse{p: p, l: l, c: c, rng: rng, at: c.Progress(), mem: map[string]simTotal{}}
		u.restore()
		u.run()
		// The group has given it to somebody else, mostly.
		if rng.IntN(4) > 0 {
			_ = p.sleep(ctx, time.Duration(rng.Int64N(int64(2*time.Minute))))
		}
	}
}

func (p *simProc) stopped() bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.stop || p.dead
}

// claim is what Sink.Topic and Sink.Claim do.
func (p *simProc) claim(ctx context.Context, l *simLane) (*claim, error) {
	ctx, end, err := p.engine.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	// Every process would begin elsewhere, as the log's end moves.
	propose := topicRow{start: framework.TopicStart{Starts: map[int32]int64{0: simEarliest + 3 + int64(p.id)}}, scope: "global"}
	stored, err := p.engine.topicRow(ctx, l.key.pipeline, l.key.topic, propose)
	if err != nil {
		return nil, err
	}
	if p.w.broken.ownStart {
		stored = &propose
	}
	return p.engine.claimLane(ctx, l.key, offsetstore.At(startOf(stored.start, l.key.partition)))
}

// startOf is where a partition begins: the second is not among those of the first
// start, as if it had been added later.
func startOf(start framework.TopicStart, partition int32) int64 {
	if at, ok := start.Starts[partition]; ok {
		return at
	}
	return simEarliest
}

// simUse is the use of one claim. Like the runner it computes a batch while the one
// before is being saved, with the totals of that one from memory.
type simUse struct {
	p      *simProc
	l      *simLane
	c      *claim
	rng    *rand.Rand
	at     framework.Progress // where the next batch begins
	saved  framework.Progress // of the last save that is known to be good
	mem    map[string]simTotal
	flight *simFlight
	failed int // saves
}

// simTotal is a total in memory, as a batch has left it.
type simTotal struct {
	value string
	batch *framework.Batch[Write]
}

// simFlight is a save under way.
type simFlight struct {
	batch *framework.Batch[Write]
	err   error
	done  chan struct{}
}

// run saves until the claim is spent or given up.
func (u *simUse) run() {
	u.saved = u.at
	saves := u.rng.IntN(16)
	for i := 0; i < saves && !u.p.stopped(); i++ {
		failed := u.failed
		b, err := u.batch(i)
		if u.flight != nil && !u.land() || err != nil {
			return
		}
		if u.failed != failed {
			continue // it was computed upon a save that has failed
		}
		u.begin(b)
		if u.rng.IntN(2) == 0 && !u.land() {
			return
		}
		if u.rng.IntN(4) == 0 {
			_ = u.p.sleep(u.c.closing, time.Duration(u.rng.Int64N(int64(3*time.Second))))
		}
	}
	if u.flight == nil || u.land() {
		_ = u.c.Release(u.p.context(u.l))
	}
}

// begin begins to save b.
func (u *simUse) begin(b *framework.Batch[Write]) {
	f := &simFlight{batch: b, done: make(chan struct{})}
	u.flight, u.at = f, b.To
	ctx, cancel := context.WithCancel(u.p.context(u.l))
	if u.rng.IntN(10) == 0 {
		d := time.Duration(u.rng.Int64N(int64(3 * time.Second)))
		u.p.spawn(func() {
			if u.p.sleep(ctx, d) == nil {
				cancel()
			}
		})
	}
	u.p.spawn(func() {
		defer close(f.done)
		defer cancel()
		f.err = u.c.Save(ctx, b)
	})
}

// land waits for the save under way, and reports whether the claim is good.
func (u *simUse) land() bool {
	f := u.flight
	u.flight = nil
	<-f.done
	u.p.saved(f)
	u.p.keep(u, f)
	if f.err == nil {
		u.saved = f.batch.To
		if u.rng.IntN(2) == 0 && !u.p.w.broken.keepState {
			maps.DeleteFunc(u.mem, func(_ string, t simTotal) bool { return t.batch == f.batch })
		}
		return true
	}
	// Whatever went wrong, nothing in memory is trusted.
	u.failed++
	var se *framework.SaveError
	if errors.As(f.err, &se) && se.ClaimSpent {
		return false
	}
	u.at, u.mem = u.saved, map[string]simTotal{}
	return true
}

// saved records what Save said.
func (p *simProc) saved(f *simFlight) {
	w := p.w
	w.mu.Lock()
	dead := p.dead
	if !dead {
		w.results = append(w.results, simResult{batchName(f.batch.To.Lane), f.err})
	}
	w.mu.Unlock()
	if !dead {
		w.note(p.name(), "save", string(f.batch.To.Lane), outcomeOf(f.err))
	}
}

// batch makes a batch of a handler that is not even deterministic: another owner
// would write other values for the same records. Its state and lane data are.
func (u *simUse) batch(i int) (*framework.Batch[Write], error) {
	from := u.at
	name := fmt.Sprintf("p%d-%d-%x-%d", u.p.id, u.l.key.partition, u.c.token[1:3], i)
	n := max(0, u.rng.IntN(9)-2) // batches that do not move the position are often
	to := from.Position.Offset + int64(n)
	fold, err := u.load(from, to)
	if err != nil {
		return nil, err
	}
	b := &framework.Batch[Write]{From: from}
	u.outputs(b, name, fold.advance(u.l.records(from.Position.Offset, to)), from.Position.Offset, to)
	b.To = framework.Progress{Position: offsetstore.At(to), Lane: []byte(name + "|" + fold.data.String())}
	for _, key := range fold.touched() {
		e := framework.StateEntry{StateKey: stateKeyOf(key)}
		if v, ok := fold.values[key]; ok {
			e.Value = fmt.Append(nil, v)
		}
		u.mem[key] = simTotal{string(e.Value), b}
		b.State = append(b.State, e)
	}
	u.p.w.remember(name, b)
	return b, nil
}

// outputs adds the rows and dead letters of a batch.
func (u *simUse) outputs(b *framework.Batch[Write], name string, closed []simClosed, from, to int64) {
	part := u.l.key.partition * 10
	for o := from; o < to; o++ {
		r, ok := u.l.record(o)
		switch {
		case !ok:
			continue
		case r.poison:
			b.DeadLetters = append(b.DeadLetters, framework.DeadLetter{
				Offset: o, Stage: "parse", Error: "poison", Attempts: 1, FailedAt: simEpoch, Timestamp: simEpoch, Value: []byte("poison"),
			})
			continue
		}
		row := simRow{Part: part + int32(o%3), Off: o, Value: Set(fmt.Sprintf("%s@%d", name, o))}
		b.Writes = append(b.Writes, simRows.Insert(row))
		old := simRow{Part: part + int32(o%3), Off: o - 3*int64(u.rng.IntN(3))}
		switch u.rng.IntN(6) {
		case 0:
			b.Writes = append(b.Writes, simRows.Delete(old))
		case 1:
			old.Other = Set(name + strings.Repeat("x", u.rng.IntN(80)))
			b.Writes = append(b.Writes, simRows.Upsert(old))
		case 2:
			old.Other = Clear[string]()
			b.Writes = append(b.Writes, simRows.Upsert(old))
		}
	}
	for _, c := range closed {
		b.Writes = append(b.Writes, simRows.Insert(simRow{Part: part + 5, Off: c.start, Value: Set(fmt.Sprint(c.sum))}))
	}
}

// load returns the state that a batch of these records needs, from memory where it
// may be newer than what is stored.
func (u *simUse) load(from framework.Progress, to int64) (*simFold, error) {
	f := &simFold{values: map[string]int64{}}
	f.data.parse(from.Lane)
	f.need(u.l.records(from.Position.Offset, to))
	var keys []framework.StateKey
	var names []string
	for _, key := range f.touched() {
		if t, ok := u.mem[key]; ok && !u.p.w.broken.noOverlay {
			f.set(key, t.value)
			continue
		}
		names, keys = append(names, key), append(keys, stateKeyOf(key))
	}
	if len(keys) == 0 {
		return f, nil
	}
	values, err := u.c.Load(u.p.context(u.l), keys)
	for i := range values {
		f.set(names[i], string(values[i]))
	}
	return f, err
}

// keep remembers what a process must not, if it is broken so.
func (p *simProc) keep(u *simUse, f *simFlight) {
	if p.w.broken.ownLane {
		p.data[u.l.key] = &simLaneOld{f.batch.To.Lane}
	}
	if p.w.broken.keepState {
		p.kept[u.l.key] = u
	}
	if p.w.broken.mirror && f.err == nil && u.rng.IntN(2) == 0 {
		u.l.mirror = f.batch.To.Position.Offset
	}
}

// restore goes on from what a broken process has kept.
func (u *simUse) restore() {
	if old := u.p.data[u.l.key]; old != nil {
		u.at.Lane = old.lane
	}
	if old := u.p.kept[u.l.key]; old != nil {
		u.mem = old.mem
	}
	if u.l.mirror > 0 {
		u.at.Position.Offset, u.c.position.Offset = u.l.mirror, u.l.mirror
	}
}
