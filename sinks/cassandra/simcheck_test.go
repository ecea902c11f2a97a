package cassandra

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockstep-stream/lockstep/framework"
)

// simBatch is a batch as it was made.
type simBatch struct {
	from       int64
	data       string
	state      []framework.StateEntry
	unanswered bool // a commit of it was
}

// simResult is what Save said of a batch.
type simResult struct {
	batch string
	err   error
}

// remember keeps what a batch was made of until it is committed.
func (w *simWorld) remember(name string, b *framework.Batch[Write]) {
	_, data, _ := strings.Cut(string(b.To.Lane), "|")
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.batches[name] == nil {
		w.batches[name] = &simBatch{from: b.From.Position.Offset, data: data, state: b.State}
	}
}

// unanswered records that a save's commit was.
func (w *simWorld) unanswered(st conditional) {
	lane, ok := st.value(colLane)
	if !ok || !st.isCommit() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if b := w.batches[batchName(lane.([]byte))]; b != nil {
		b.unanswered = true
	}
}

// recordSent checks I6: one content for each claim and number.
func (w *simWorld) recordSent(st conditional, text string) {
	seq, ok := st.value(colSeq)
	if !ok || st.create {
		return
	}
	claim, _ := st.value(colSaveClaim)
	key := fmt.Sprint(claim, seq)
	w.mu.Lock()
	before, ok := w.sent[key]
	w.sent[key] = text
	w.mu.Unlock()
	if ok && before != text {
		w.failf("I6: two contents under %s:\n%s\n%s", key, before, text)
	}
}

func (w *simWorld) lane(key laneKey) *simLane { return w.lanes[key.partition] }

// executed runs a conditional statement and checks what it changed.
func (w *simWorld) executed(st conditional) bool {
	l, before := w.lane(st.lane), w.db.readLedger(st.lane)
	if !w.db.execute(st) {
		return false
	}
	after := w.db.readLedger(st.lane)
	if err := after.check(st.lane); err != nil {
		w.failf("I10: %v", err)
	}
	if before == nil {
		l.created(after)
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
		l.wasReset(before, after)
	case after.seq > before.seq:
		l.committed(before, after)
	case after.position != before.position || after.gen != before.gen:
		w.failf("I1: the position moved without a save: %+v to %+v", before, after)
	}
	return true
}

// created checks I13: a lane begins where the topic's first start says.
func (l *simLane) created(row *ledgerRow) {
	topic := l.w.db.readTopic(l.key.pipeline, l.key.topic)
	if topic == nil {
		l.w.failf("I13: lane %d has a position, and the topic no starts", l.key.partition)
	} else if want := startOf(topic.start, l.key.partition); row.position.Offset != want {
		l.w.failf("I13: lane %d begins at %d, want %d", l.key.partition, row.position.Offset, want)
	}
}

// committed checks and records a save.
func (l *simLane) committed(before, after *ledgerRow) {
	c := simCommit{batch: batchName(after.lane), from: before.position.Offset, to: after.position.Offset, seq: after.seq}
	if after.claim != before.claim || after.saveClaim != before.claim {
		l.w.failf("I2: save %d is not the owner's", c.seq)
	}
	if after.bytes > 0 {
		c.mutations = l.content(after)
	}
	l.checkTimestamps(&c, before, after)
	if l.last != nil {
		l.checkApplied("I4", l.last)
	}
	l.append(c)
	l.before = l.now.clone()
	l.now.advance(l.records(c.from, c.to))
	l.checkBatch(&c)
	l.countSave(&c)
}

func (l *simLane) append(c simCommit) {
	l.chain = append(l.chain, c)
	l.last = &c
}

// checkTimestamps checks I5.
func (l *simLane) checkTimestamps(c *simCommit, before, after *ledgerRow) {
	if len(c.mutations) == 0 {
		return
	}
	if low := c.mutations[0].timestamp; low <= before.highTS {
		l.w.failf("I5: save %d begins at timestamp %d, the one before reached %d", c.seq, low, before.highTS)
	}
	if high := c.mutations[len(c.mutations)-1].timestamp; high != after.highTS {
		l.w.failf("I5: save %d reaches timestamp %d, the row says %d", c.seq, high, after.highTS)
	}
}

// checkBatch checks that a batch that was committed was made of what was committed
// before it: its begin (I1), the state that it was given (I11), and the lane's data,
// which decides what is late (I12).
func (l *simLane) checkBatch(c *simCommit) {
	l.w.mu.Lock()
	b := l.w.batches[c.batch]
	l.w.mu.Unlock()
	if b.from != c.from {
		l.w.failf("I1: save %d was made of the records from %d, and %d was stored", c.seq, b.from, c.from)
	}
	if want := l.now.data.String(); b.data != want {
		l.w.failf("I12: save %d has lane data %q, want %q", c.seq, b.data, want)
	}
	for _, e := range b.state {
		name := string(e.Key)
		if e.Window != 0 || e.Operator == "windows" {
			name = windowName(e.Window)
		}
		if want := l.now.value(name); string(e.Value) != want {
			l.w.failf("I11: save %d makes %s %q, want %q", c.seq, name, e.Value, want)
		}
	}
}

// wasReset checks and records a reset.
func (l *simLane) wasReset(before, after *ledgerRow) {
	if after.claim == before.claim || after.seq <= before.seq || after.pending() {
		l.w.failf("I2: a reset does not fence: %+v to %+v", before, after)
	}
	if before.pending() {
		l.w.failf("I4: a reset replaces save %d, which is pending", before.seq)
	}
	if l.last != nil {
		l.checkApplied("I4", l.last)
	}
	l.append(simCommit{
		batch: resetName(int(after.claim[0])), from: before.position.Offset, to: after.position.Offset, seq: after.seq, reset: true,
	})
	if after.gen != before.gen {
		clear(l.now.values)
	}
	l.before = l.now.clone()
	l.w.count("resets", 1)
}

// content decodes the last save of row, wherever it is (I7).
func (l *simLane) content(row *ledgerRow) []mutation {
	chunks := [][]byte{row.body}
	if row.chunks > 0 {
		stage := l.w.db.stage[row.stageKey(l.key)]
		chunks = nil
		for n := range row.chunks {
			chunks = append(chunks, stage[n])
		}
	}
	ms, err := decodeBlob(context.Background(), chunks, row.contentSum(), l.w.tables)
	if err != nil {
		l.w.failf("I7: save %d cannot be read: %v", row.seq, err)
	}
	return ms
}

// checkApplied checks that every write of c is in the tables, or a newer one.
func (l *simLane) checkApplied(rule string, c *simCommit) {
	for i := range c.mutations {
		m := &c.mutations[i]
		row := l.w.db.tables[m.rowKey()]
		if row == nil {
			l.w.failf("%s: save %d: a row was not written", rule, c.seq)
			return
		}
		for n, cell := range m.fakeCells() {
			if cell.head != headUnset && row.newest(n) < m.timestamp {
				l.w.failf("%s: save %d: a cell was not written", rule, c.seq)
				return
			}
		}
		if m.op == opDelete && max(row.deleted, row.purged) < m.timestamp {
			l.w.failf("%s: save %d: a delete was not written", rule, c.seq)
			return
		}
	}
}

// checkPartials checks I14 and I3 of the state: each partial total is what the
// committed saves give, or while the last may not be in the tables yet, those before.
func (l *simLane) checkPartials() {
	row := l.w.db.ledger[l.key]
	if row == nil {
		return
	}
	names := maps.Clone(l.now.values)
	maps.Copy(names, l.before.values)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		got, now := l.stored(name), l.now.value(name)
		if got != now && (!row.pending() || got != l.before.value(name)) {
			l.w.failf("I14: lane %d: %s is stored as %q, want %q or, while save %d is pending (%v), %q",
				l.key.partition, name, got, now, row.seq, row.pending(), l.before.value(name))
		}
	}
}

// checkChain checks I1: the saves join end to start, up to the position.
func (l *simLane) checkChain() {
	row, topic := l.w.db.ledger[l.key], l.w.db.readTopic(l.key.pipeline, l.key.topic)
	at, seq := startOf(topic.start, l.key.partition), int64(0)
	for _, c := range l.chain {
		if c.removed != "" {
			continue
		}
		if c.from != at || c.to < c.from && !c.reset || c.seq <= seq {
			l.w.failf("I1: save %d covers %d to %d, the one before (%d) ended at %d", c.seq, c.from, c.to, seq, at)
		}
		at, seq = c.to, c.seq
	}
	if l.end.Position.Offset != at {
		l.w.failf("I1: the position is %d, the saves end at %d", l.end.Position.Offset, at)
	}
	if row.pending() {
		l.w.failf("I3: the last owner has released, and the save is still pending: %+v", row)
	}
}

// checkResults checks I8: what Save said is true.
func (w *simWorld) checkResults() {
	count := map[string]int{}
	for _, l := range w.lanes {
		for _, c := range l.chain {
			count[c.batch]++
		}
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
// the other.
func (w *simWorld) checkTables() {
	want, ts := newFakeDB(), int64(0)
	for _, l := range w.lanes {
		for i := range l.chain {
			c := &l.chain[i]
			l.checkApplied("I3", c)
			if ts++; c.removed != "" {
				want.tables[c.removed].remove(ts)
			}
			for i := range c.mutations {
				ts++
				want.mutate(&c.mutations[i], ts)
			}
		}
	}
	if got, want := w.db.read(), want.read(); !slices.Equal(got, want) {
		w.failf("I3: the tables are not what was committed:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// noteEnd adds to the history what is stored at its end.
func (w *simWorld) noteEnd() {
	w.note("the end")
	for _, l := range w.lanes {
		row := *w.db.ledger[l.key]
		w.note(fmt.Sprintf("lane %d: %x %x save %d at %d, %d, %s, %x", l.key.partition, row.claim, row.saveClaim, row.seq,
			row.position.Offset, row.highTS, row.lane, row.sum))
	}
	w.note(strings.Join(w.db.read(), "\n"))
	w.note(strings.Join(w.faulty, "\n"))
}

// rowsOf are the keys of the lane's output rows, in order.
func (l *simLane) rowsOf() []string {
	var keys []string
	prefix := simRows.Name() + "\x00"
	for key := range l.w.db.tables {
		if rest, ok := strings.CutPrefix(key, prefix); ok && laneOfRow([]byte(rest)) == l.key.partition {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// laneOfRow is the partition whose lane writes an output row.
func laneOfRow(row []byte) int32 {
	_, part, _, _ := nextCell(row)
	return int32(binary.BigEndian.Uint32(part)) / 10
}

// removeRow lets another program delete an output row, with the timestamp of what it
// has read. It does so only where no save may have to be applied again: the sink does
// not promise that such deletes last.
func (w *simWorld) removeRow(l *simLane) {
	row := w.db.ledger[l.key]
	if row == nil || row.pending() && l.marked != row.seq {
		return
	}
	keys := l.rowsOf()
	if len(keys) == 0 {
		return
	}
	key := keys[w.rng.IntN(len(keys))]
	r := w.db.tables[key]
	r.remove(max(r.marker.ts, r.newest(0), r.newest(1)))
	l.chain = append(l.chain, simCommit{removed: key})
	w.note(fmt.Sprintf("somebody deletes %q", key))
	w.count("rows deleted by others", 1)
}
