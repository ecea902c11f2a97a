package cassandra

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
)

// The simulation: a few processes fight for two lanes over a database that loses
// requests, loses answers, and executes statements twice, or long after they were
// given up.
//
// One goroutine, the driver, decides by a seed what happens next. All others wait
// for it, at one of the places where a process meets the world: a statement, a
// sleep, the begin of a goroutine, and the end of any of these by a cancel. It lets
// go on one at a time and waits until everything stands still again, so that
// nothing depends on the scheduler: a seed always gives the same history.

var (
	simSeeds = flag.Int("sim.seeds", defaultSimSeeds, "how many histories to simulate")
	simFirst = flag.Int("sim.first", 0, "the seed of the first of them")
	simSeed  = flag.Int("sim.seed", -1, "simulate only this history, and log it")
)

// simSteps is how long a history is.
const simSteps = 350

// How long deletes are kept, the least that the sink accepts, and how long a
// statement can be on its way. With the lease on applying it must be shorter.
const (
	simGrace = time.Hour
	simLate  = 20 * time.Minute
)

// errLost is an answer that never came.
var errLost = errors.New("no answer")

// simOp is what a goroutine of a process waits for.
type simOp struct {
	proc   *simProc
	name   string // what waits at the same time has different names
	kind   simKind
	due    time.Time // not before
	sent   time.Time
	writes bool
	commit bool       // it is a save
	gone   bool       // nobody waits any more; guarded by mu
	run    func() any // what a statement does in the database
	result any        // of a statement that was executed
	answer chan any   // the result of run, or an error
}

type simKind uint8

const (
	simStatement simKind = iota
	simAnswer            // an executed statement whose answer is on its way
	simSleep
	simTurn // a goroutine that has only to be let go on
)

// simWorld is the network, the database, and the record of what is true.
type simWorld struct {
	t      *testing.T
	seed   uint64
	rng    *rand.Rand
	db     *fakeDB
	tables *fakeTables
	lanes  []*simLane
	procs  []*simProc
	faults float64   // share of statements that go wrong
	idle   bool      // nights and deletes by others are often
	broken simBroken // what is wrong with the processes, the zero value: nothing

	waiting []*simOp // what there is to choose from, in an order that the seed gives
	late    []*simOp // given up by their senders, and still on their way
	choice  []*simOp // ready's memory

	mu       sync.Mutex // guards what follows; goroutines of processes use it
	arrivals []*simOp   // come since everything last stood still
	sent     map[string]string
	batches  map[string]*simBatch
	results  []simResult
	resets   []simReset
	totals   simTotals
	faulty   []string // the violations found
	history  bytes.Buffer
	log      func(args ...any)
}

func newSimWorld(t *testing.T, seed uint64, broken simBroken) *simWorld {
	w := &simWorld{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), db: newFakeDB(), tables: newFakeTables(simRows), broken: broken,
		sent: map[string]string{}, batches: map[string]*simBatch{}, totals: simTotals{},
	}
	for n := range int32(2) {
		w.lanes = append(w.lanes, newSimLane(w, n))
	}
	w.faults = []float64{0.02, 0.1, 0.3}[w.rng.IntN(3)]
	w.idle = w.rng.IntN(4) == 0
	return w
}

// failf records a violation.
func (w *simWorld) failf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faulty = append(w.faulty, fmt.Sprintf(format, args...))
}

// count counts something that happened.
func (w *simWorld) count(what string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.totals[what] += n
}

// note adds a line to the history.
func (w *simWorld) note(what ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	start := w.history.Len()
	w.history.WriteString(strconv.FormatInt(time.Now().UnixMicro(), 10))
	for _, s := range what {
		w.history.WriteByte(' ')
		w.history.WriteString(s)
	}
	if w.log != nil {
		w.log(string(w.history.Bytes()[start:]))
	}
	w.history.WriteByte('\n')
}

// settle lets all goroutines run until they wait, and puts what they wait for in an
// order that does not depend on them.
func (w *simWorld) settle() {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortFunc(w.arrivals, func(a, b *simOp) int { return cmp.Compare(a.name, b.name) })
	for i, op := range w.arrivals {
		if i > 0 && op.name == w.arrivals[i-1].name {
			w.faulty = append(w.faulty, "two goroutines wait at once, and the history depends on which came first: "+op.name)
		}
	}
	w.waiting = append(w.waiting, w.arrivals...)
	w.arrivals = w.arrivals[:0]
	w.waiting = slices.DeleteFunc(w.waiting, func(op *simOp) bool { return op.gone && op.kind != simStatement })
}

// ready returns what can go on now.
func (w *simWorld) ready() []*simOp {
	now := time.Now()
	w.choice = w.choice[:0]
	for _, op := range w.waiting {
		if op.kind == simStatement || !now.Before(op.begins()) {
			w.choice = append(w.choice, op)
		}
	}
	return w.choice
}

// begins is when op can go on.
func (op *simOp) begins() time.Time {
	if op.kind != simStatement && op.proc.paused.After(op.due) {
		return op.proc.paused
	}
	return op.due
}

// step lets one thing happen. Everything stands still.
func (w *simWorld) step() {
	ready, roll := w.ready(), w.rng.Float64()
	switch {
	case len(w.late) > 0 && roll < 0.03:
		w.arrive()
	case len(ready) > 0 && roll < 0.94:
		w.advance(ready[w.rng.IntN(len(ready))])
	default:
		w.pass()
	}
}

// advance lets op go on.
func (w *simWorld) advance(op *simOp) {
	i := slices.Index(w.waiting, op)
	w.waiting = slices.Delete(w.waiting, i, i+1)
	if op.kind == simStatement {
		w.deliver(op)
		return
	}
	w.note(op.name)
	op.answer <- orOK(op.result)
}

func orOK(v any) any {
	if v == nil {
		return struct{}{}
	}
	return v
}

// arrive executes a statement that was given up.
func (w *simWorld) arrive() {
	i := w.rng.IntN(len(w.late))
	op := w.late[i]
	w.late = slices.Delete(w.late, i, i+1)
	if time.Since(op.sent) <= simLate {
		w.note("late:", op.name, w.execute(op))
	}
}

// execute lets a statement take effect, and returns what it answers in words.
func (w *simWorld) execute(op *simOp) string {
	op.result = op.run()
	switch v := op.result.(type) {
	case bool:
		return fmt.Sprint("-> ", v)
	case *ledgerRow:
		if v != nil {
			return fmt.Sprintf("-> claim %x save %d applied %d at %d", v.claim[:3], v.seq, v.applied, v.position.Offset)
		}
		return "-> none"
	default:
		return "-> done"
	}
}

// deliver decides what becomes of a statement.
func (w *simWorld) deliver(op *simOp) {
	switch {
	case time.Since(op.sent) > simLate:
		w.note(op.name, "timed out")
		op.answer <- errLost
		return
	case w.rng.Float64() >= w.faults:
		w.note(op.name, w.execute(op))
		w.totals.countAnswer(op)
		w.reply(op, 0)
		return
	}
	fault := w.rng.IntN(len(simFaults))
	w.totals.countFault(op, fault)
	w.note(op.name, simFaults[fault])
	switch simFaults[fault] {
	case "lost on the way":
		op.answer <- errLost
	case "without an answer":
		w.note(w.execute(op))
		op.answer <- errLost
	case "delayed": // the sender gives up, the statement is still on its way
		w.late = append(w.late, op)
		op.answer <- errLost
	case "held back": // the sender is paused before it reads the answer
		w.note(w.execute(op))
		w.reply(op, time.Duration(w.rng.Int64N(int64(15*time.Minute))))
	case "doubled":
		w.note(w.execute(op))
		again := *op
		w.late = append(w.late, &again)
		w.reply(op, 0)
	}
}

var simFaults = []string{"lost on the way", "without an answer", "delayed", "held back", "doubled"}

// reply sends the answer of a statement, after a pause.
func (w *simWorld) reply(op *simOp, pause time.Duration) {
	if now := time.Now(); pause == 0 && !now.Before(op.proc.paused) {
		op.answer <- orOK(op.result)
		return
	}
	answer := *op
	answer.name, answer.kind, answer.due = "answer to "+op.name, simAnswer, time.Now().Add(pause)
	w.waiting = append(w.waiting, &answer)
}

// pass lets time pass: mostly until something has to be done, sometimes more, and
// rarely longer than deletes are kept.
func (w *simWorld) pass() {
	d := time.Duration(w.rng.Int64N(int64(2 * time.Second)))
	switch roll := w.rng.IntN(120); {
	case roll < 2, w.idle && roll < 30:
		w.night()
		return
	case roll < 9:
		d = time.Duration(w.rng.Int64N(int64(12 * time.Minute)))
	case roll < 90:
		if next, ok := w.next(); ok {
			d = time.Until(next)
		}
	}
	time.Sleep(d)
}

// night is longer than deletes are kept, and then they are gone, mostly.
func (w *simWorld) night() {
	time.Sleep(simGrace + time.Duration(w.rng.Int64N(int64(2*time.Hour))))
	if w.rng.IntN(4) > 0 {
		w.count("deletes purged", w.db.purge(simGrace))
	}
	w.count("nights", 1)
}

// next is the next moment at which something is ready that is not yet.
func (w *simWorld) next() (first time.Time, ok bool) {
	now := time.Now()
	for _, op := range w.waiting {
		if at := op.begins(); at.After(now) && (!ok || at.Before(first)) {
			first, ok = at, true
		}
	}
	return first, ok
}

// happen lets something happen from outside, rarely, and reports whether it did.
func (w *simWorld) happen() bool {
	lane := w.lanes[w.rng.IntN(len(w.lanes))]
	p := w.procs[w.rng.IntN(len(w.procs))]
	if w.idle && w.rng.IntN(30) == 0 {
		w.removeRow(lane)
	}
	switch w.rng.IntN(600) {
	case 0, 1, 2, 3:
		w.crash(p)
		w.newProc().begin()
	case 4, 5, 6, 7:
		w.pause(p)
	case 8, 9:
		w.newProc().flush(lane)
	case 10, 11, 12, 13:
		w.newProc().reset(lane)
	case 14, 15, 16, 17, 18, 19:
		w.removeRow(lane)
	case 20:
		w.count("deletes purged", w.db.purge(simGrace))
	default:
		return false
	}
	return true
}

// pause stops all of a process for a while, like SIGSTOP.
func (w *simWorld) pause(p *simProc) {
	if p.dead || p.lives == 0 {
		return
	}
	w.count("pauses", 1)
	p.paused = time.Now().Add(time.Duration(w.rng.Int64N(int64(15 * time.Minute))))
	w.note(p.name(), "is paused until", p.paused.Format("15:04:05"))
}

// crash ends a process: what it had sent may still arrive.
func (w *simWorld) crash(p *simProc) {
	if p.dead {
		return
	}
	w.note(p.name(), "crashes")
	w.count("crashes", 1)
	w.countProc(p)
	w.mu.Lock()
	p.dead = true
	w.mu.Unlock()
	w.waiting = slices.DeleteFunc(w.waiting, func(op *simOp) bool {
		if op.proc != p {
			return false
		}
		if op.kind == simStatement && op.writes && w.rng.IntN(2) == 0 {
			w.late = append(w.late, op)
		}
		op.answer <- errLost
		return true
	})
	p.engine.close(framework.ErrClosed)
}

// simHistory is a history that has ended.
type simHistory struct {
	faulty []string // the violations
	totals simTotals
	text   string // all that happened
}

// simulate runs one history.
func simulate(t *testing.T, seed uint64, broken simBroken, trace bool) (h simHistory) {
	synctest.Test(t, func(t *testing.T) {
		w := newSimWorld(t, seed, broken)
		if trace {
			w.log = t.Log
		}
		for range 2 + w.rng.IntN(2) {
			w.newProc().begin()
		}
		for range simSteps {
			w.settle()
			if w.happen() {
				w.settle()
			}
			w.step()
		}
		w.finish()
		w.noteEnd()
		h = simHistory{faulty: w.faulty, totals: w.sum(), text: w.history.String()}
	})
	return h
}

// finish heals the network, lets everything end, lets a last owner claim, and
// checks the rest of the invariants.
func (w *simWorld) finish() {
	w.settle()
	w.heal()
	w.drain(w.allDone)
	for len(w.late) > 0 {
		w.arrive()
	}
	for _, l := range w.lanes {
		w.finishLane(l)
	}
	w.checkResults()
	w.checkResets()
	w.checkTables()
	w.end()
}

func (w *simWorld) heal() {
	w.faults = 0
	for _, p := range w.procs {
		p.paused = time.Time{}
		w.mu.Lock()
		p.stop = true
		w.mu.Unlock()
	}
	for _, op := range w.waiting {
		if op.kind == simAnswer {
			op.due = time.Time{}
		}
	}
}

func (w *simWorld) allDone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.ContainsFunc(w.procs, func(p *simProc) bool { return p.lives > 0 })
}

// finishLane lets a last owner claim a lane, and give it up.
func (w *simWorld) finishLane(l *simLane) {
	last := w.newProc()
	err := errors.New("it does not end")
	last.launch("last claim", func() {
		ctx := last.context(l)
		c, failed := last.claim(ctx, l)
		if err = failed; err == nil {
			l.end = c.Progress()
			err = c.Release(ctx)
		}
	})
	w.drain(w.allDone)
	if err != nil {
		w.failf("I7: the last claim of lane %d: %v", l.key.partition, err)
		return
	}
	l.checkChain()
	l.checkPartials()
}

// end lets every process end, whatever it waits for.
func (w *simWorld) end() {
	for _, p := range w.procs {
		go func() { _ = p.engine.shut(context.Background(), func() {}) }()
	}
	w.drain(func() bool {
		return !slices.ContainsFunc(w.procs, func(p *simProc) bool { return !closed(p.engine.ended) })
	})
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// drain lets everything go on until done.
func (w *simWorld) drain(done func() bool) {
	for range 100_000 {
		w.settle()
		if ready := w.ready(); len(ready) > 0 {
			w.advance(ready[0])
			continue
		}
		if done() {
			return
		}
		next, ok := w.next()
		if !ok {
			break
		}
		time.Sleep(time.Until(next))
	}
	w.failf("the processes do not come to an end")
	for _, p := range w.procs {
		w.crash(p)
	}
}

func TestProtocolKeepsItsInvariantsOnAnUnreliableDatabase(t *testing.T) {
	if *simSeed >= 0 {
		h := simulate(t, uint64(*simSeed), simBroken{}, true)
		for _, f := range h.faulty {
			t.Error(f)
		}
		t.Logf("%x: %+v", sha256.Sum256([]byte(h.text)), h.totals)
		return
	}
	totals, workers := simTotals{}, runtime.GOMAXPROCS(0)
	var mu sync.Mutex
	t.Run("histories", func(t *testing.T) {
		for n := range workers {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				for seed := *simFirst + n; seed < *simFirst+*simSeeds && !t.Failed(); seed += workers {
					h := simulate(t, uint64(seed), simBroken{}, false)
					if len(h.faulty) > 0 {
						t.Errorf("history %d; see it with -sim.seed=%d\n%s", seed, seed, strings.Join(h.faulty, "\n"))
					}
					mu.Lock()
					totals.add(h.totals)
					mu.Unlock()
				}
			})
		}
	})
	totals.check(t)
}
