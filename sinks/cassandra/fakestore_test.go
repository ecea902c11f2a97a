package cassandra

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// fakeDB obeys the rules of Cassandra that the protocol builds on: a ledger row is
// linearizable, everything else merges cell by cell, the highest timestamp wins,
// and a delete wins over a write with the same timestamp, as long as its tombstone
// has not been purged.
type fakeDB struct {
	ledger map[laneKey]*ledgerRow
	topics map[string]*topicRow
	stage  map[stageKey]map[int]stageCell
	gone   map[stageKey]time.Time // when deleted, with a higher timestamp than any insert has
	tables map[string]*fakeRow
}

type stageCell []byte

func newFakeDB() *fakeDB {
	return &fakeDB{
		ledger: map[laneKey]*ledgerRow{}, topics: map[string]*topicRow{}, stage: map[stageKey]map[int]stageCell{},
		gone: map[stageKey]time.Time{}, tables: map[string]*fakeRow{},
	}
}

// fakeRow is a row of a user's table, as cells with timestamps.
type fakeRow struct {
	marker    fakeCell
	cells     []fakeCell
	deleted   int64
	deletedAt time.Time // by the server's clock
	purged    int64     // timestamp of the newest delete that was purged
}

type fakeCell struct {
	ts     int64
	value  []byte // nil: null
	at     time.Time
	purged int64 // timestamp of the newest null that was purged
}

// merge keeps the newer cell; of equal ones null, then the larger value.
func (c *fakeCell) merge(o fakeCell) {
	if o.ts > c.ts || o.ts == c.ts && (o.value == nil || c.value != nil && bytes.Compare(o.value, c.value) > 0) {
		o.purged = c.purged
		*c = o
	}
}

// newest is the timestamp up to which everything written to cell n is decided.
func (r *fakeRow) newest(n int) int64 {
	return max(r.cells[n].ts, r.cells[n].purged, r.deleted, r.purged)
}

// purge forgets deletes that are older than grace, with what they hide, as
// compaction does, and returns how many. A write that was older than the delete and
// arrives later will show.
func (db *fakeDB) purge(grace time.Duration) (n int) {
	for _, row := range db.tables {
		n += row.purge(grace)
	}
	for key, at := range db.gone {
		if time.Since(at) > grace {
			delete(db.gone, key)
		}
	}
	return n
}

func (r *fakeRow) purge(grace time.Duration) (n int) {
	if r.deleted > 0 && time.Since(r.deletedAt) > grace {
		r.marker.hide(r.deleted)
		for i := range r.cells {
			r.cells[i].hide(r.deleted)
		}
		r.purged, r.deleted = max(r.purged, r.deleted), 0
		n++
	}
	for i := range r.cells {
		if c := &r.cells[i]; c.ts > 0 && c.value == nil && time.Since(c.at) > grace {
			*c = fakeCell{purged: c.ts}
			n++
		}
	}
	return n
}

// hide removes the cell if a delete with timestamp ts covers it.
func (c *fakeCell) hide(ts int64) {
	if c.ts <= ts {
		*c = fakeCell{purged: c.purged}
	}
}

// remove deletes a row with timestamp ts.
func (r *fakeRow) remove(ts int64) {
	if ts >= r.deleted {
		r.deleted, r.deletedAt = ts, time.Now()
	}
}

func (db *fakeDB) insertTopic(pipeline, topic string, row topicRow) {
	if key := pipeline + "\x00" + topic; db.topics[key] == nil {
		db.topics[key] = &row
	}
}

func (db *fakeDB) readTopic(pipeline, topic string) *topicRow {
	return db.topics[pipeline+"\x00"+topic]
}

func (db *fakeDB) readLedger(lane laneKey) *ledgerRow {
	row := db.ledger[lane]
	if row == nil {
		return nil
	}
	r := *row
	return &r
}

// execute is atomic, like the real thing.
func (db *fakeDB) execute(st conditional) bool {
	row := db.ledger[st.lane]
	if st.create {
		if row != nil {
			return false
		}
		db.ledger[st.lane] = &ledgerRow{}
		row = db.ledger[st.lane]
	} else {
		if row == nil {
			return false
		}
		for _, w := range st.when {
			if !reflect.DeepEqual(*row.field(w.column), w.value) {
				return false
			}
		}
	}
	for _, s := range st.set {
		row.set(s)
	}
	return true
}

// field returns the value of a column as statements carry it.
func (r *ledgerRow) field(column string) *any {
	var v any
	switch column {
	case colClaim:
		v = r.claim
	case colEpoch:
		v = r.epoch
	case colSeq:
		v = r.seq
	case colApplied:
		v = r.applied
	case colNextOffset:
		v = r.position.Offset
	case colLeaderEpoch:
		v = r.position.LeaderEpoch
	case colTopicID:
		v = gocql.UUID(r.position.TopicID)
	default:
		panic("no condition on column " + column)
	}
	return &v
}

// set assigns a column. It panics on null, which the ledger must never hold.
func (r *ledgerRow) set(s setting) {
	switch s.column {
	case colFormat:
		r.format = s.value.(int)
	case colEpoch:
		r.epoch = s.value.(int64)
	case colClaim:
		r.claim = s.value.(gocql.UUID)
	case colOwner:
		r.owner = s.value.(string)
	case colSeq:
		r.seq = s.value.(int64)
	case colApplied:
		r.applied = s.value.(int64)
	case colNextOffset:
		r.position.Offset = s.value.(int64)
	case colLeaderEpoch:
		r.position.LeaderEpoch = s.value.(int32)
	case colTopicID:
		r.position.TopicID = offsetstore.TopicID(s.value.(gocql.UUID))
	case colHighTS:
		r.highTS = s.value.(int64)
	case colGen:
		r.gen = s.value.(int64)
	case colSaveClaim:
		r.saveClaim = s.value.(gocql.UUID)
	case colChunks:
		r.chunks = s.value.(int)
	case colBytes:
		r.bytes = s.value.(int)
	case colSum:
		r.sum = mustBytes(s)
	case colBody:
		r.body = mustBytes(s)
	case colLane:
		r.lane = mustBytes(s)
	case colSavedAt:
		r.savedAt = s.value.(time.Time)
	default:
		panic("no column " + s.column)
	}
}

func mustBytes(s setting) []byte {
	b := s.value.([]byte)
	if b == nil {
		panic("null in column " + s.column)
	}
	return b
}

func (db *fakeDB) writeChunk(key stageKey, n int, data []byte) {
	if _, gone := db.gone[key]; gone {
		return
	}
	if db.stage[key] == nil {
		db.stage[key] = map[int]stageCell{}
	}
	// Equal timestamps: the larger value wins.
	if bytes.Compare(data, db.stage[key][n]) > 0 {
		db.stage[key][n] = data
	}
}

func (db *fakeDB) readChunks(key stageKey) map[int][]byte {
	out := map[int][]byte{}
	for n, data := range db.stage[key] {
		out[n] = data
	}
	return out
}

func (db *fakeDB) deleteChunks(key stageKey) {
	db.gone[key] = time.Now()
	delete(db.stage, key)
}

func (db *fakeDB) apply(group []mutation) {
	for i := range group {
		db.mutate(&group[i], group[i].timestamp)
	}
}

// mutate applies one mutation as if it had timestamp ts.
func (db *fakeDB) mutate(m *mutation, ts int64) {
	key, cells := m.rowKey(), m.fakeCells()
	row := db.tables[key]
	if row == nil {
		row = &fakeRow{cells: make([]fakeCell, len(m.target.columns)-m.target.keys())}
		db.tables[key] = row
	}
	switch m.op {
	case opDelete:
		row.remove(ts)
		return
	case opInsert:
		row.marker.merge(fakeCell{ts: ts, value: []byte{}})
	}
	for i, c := range cells {
		if c.head != headUnset {
			row.cells[i].merge(fakeCell{ts: ts, value: c.value, at: time.Now()})
		}
	}
}

// rowKey names the row of m.
func (m *mutation) rowKey() string {
	rest := m.row
	for range m.target.keys() {
		_, _, rest, _ = nextCell(rest)
	}
	return m.target.name + "\x00" + string(m.row[:len(m.row)-len(rest)])
}

type rowCell struct {
	head  uint64
	value []byte
}

// fakeCells returns the cells after the key.
func (m *mutation) fakeCells() []rowCell {
	var cells []rowCell
	rest := m.row
	for i := 0; len(rest) > 0; i++ {
		var c rowCell
		c.head, c.value, rest, _ = nextCell(rest)
		if i >= m.target.keys() {
			cells = append(cells, c)
		}
	}
	return cells
}

// read returns what a reader sees, one line a row.
func (db *fakeDB) read() []string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(db.tables)) {
		row := db.tables[key]
		live := row.marker.ts > row.deleted
		var b strings.Builder
		fmt.Fprintf(&b, "%q:", key)
		for _, c := range row.cells {
			if c.ts > row.deleted && c.value != nil {
				live = true
				fmt.Fprintf(&b, " %q", c.value)
			} else {
				b.WriteString(" null")
			}
		}
		if live {
			lines = append(lines, b.String())
		}
	}
	return lines
}

func (db *fakeDB) readState(b stateBucket, keys [][]byte) map[string][]byte {
	out := map[string][]byte{}
	for _, key := range keys {
		w := stateRows.Insert(stateRow{
			Pipeline: b.lane.pipeline, Operator: b.operator, Topic: b.lane.topic, Partition: b.lane.partition,
			Gen: b.gen, Window: b.window, Bucket: b.bucket, Key: key,
		})
		m := mutation{target: &boundTarget{target: w.target}, row: w.row}
		row := db.tables[m.rowKey()]
		if row != nil && row.marker.ts > row.deleted {
			out[string(key)] = notNull(row.cells[0].value)
		}
	}
	return out
}

// fakeTables binds every target as it is.
type fakeTables struct{ known map[string]*boundTarget }

func newFakeTables(targets ...AnyTable) *fakeTables {
	f := &fakeTables{known: map[string]*boundTarget{}}
	for _, t := range append([]AnyTable{stateRows, deadRows}, targets...) {
		tg, err := t.declared()
		if err != nil {
			panic(err)
		}
		f.known[tg.name] = tg.bind("ks", tableID{byte(len(f.known) + 1)})
	}
	return f
}

func (f *fakeTables) bound(t *target) (*boundTarget, bool) {
	b, ok := f.known[t.name]
	return b, ok
}

func (f *fakeTables) resolve(_ context.Context, t *target, id tableID) (*boundTarget, error) {
	b, ok := f.known[t.name]
	if !ok || id != anyTable && b.id != id {
		return nil, fmt.Errorf("no table %s", t.name)
	}
	return b, nil
}
