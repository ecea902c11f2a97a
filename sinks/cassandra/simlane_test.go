package cassandra

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
)

// simLane is one partition: its log, and what was committed of it.
type simLane struct {
	w      *simWorld
	key    laneKey
	chain  []simCommit
	last   *simCommit // the last save or reset
	now    *simFold   // what the committed saves give
	before *simFold   // and those before the last
	end    framework.Progress
	mirror int64 // what the group has committed, see simBroken.mirror
	marked int64 // the number that an owner takes for marked, see simBroken
}

// simCommit is a save, or a reset, that took effect, or a delete by somebody else.
type simCommit struct {
	batch     string
	from, to  int64
	seq       int64
	mutations []mutation
	reset     bool
	removed   string // the row that somebody else has deleted
}

func newSimLane(w *simWorld, partition int32) *simLane {
	return &simLane{
		w: w, key: laneKey{"sim", "in", partition},
		now: &simFold{values: map[string]int64{}}, before: &simFold{values: map[string]int64{}},
	}
}

// simRow is a row of the simulated pipeline's output.
type simRow struct {
	Part  int32            `cql:"part,partition"`
	Off   int64            `cql:"off,clustering"`
	Value Optional[string] `cql:"value"`
	Other Optional[string] `cql:"other"`
}

var simRows = NewTable[simRow]("rows")

// simEarliest is where every log begins.
const simEarliest = 5

var simEpoch = time.UnixMilli(1_000_000_000_000)

// simRecord is a record of the log. The seed gives them all.
type simRecord struct {
	poison bool
	key    string
	amount int64
	at     int64 // event time
}

// record returns the record at an offset, unless there is a gap.
func (l *simLane) record(offset int64) (simRecord, bool) {
	x := mix(l.w.seed<<20 + uint64(l.key.partition)<<16 + uint64(offset))
	return simRecord{
		poison: x>>8%9 == 0, key: "k" + strconv.Itoa(int(x>>16%3)), amount: 1 + int64(x>>24%9), at: offset*10 + int64(x>>32%60),
	}, x%5 != 0
}

// mix is a step of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (l *simLane) records(from, to int64) []simRecord {
	var records []simRecord
	for o := from; o < to; o++ {
		if r, ok := l.record(o); ok {
			records = append(records, r)
		}
	}
	return records
}

// simFold is what records come to, in their order: totals, sums of windows, and the
// lane's own data.
type simFold struct {
	values map[string]int64 // by name: k1, or w150 of the window that begins at 150
	wanted map[string]bool
	data   simData
}

// simData is the lane's own data: what decides which records are late and which
// windows are open.
type simData struct {
	watermark, read, passed, late, dead int64
	open                                []int64 // windows, by their begin
}

// Windows are open for their length and a little longer.
const (
	simWindow   = 50
	simLateness = 10
)

func (d *simData) String() string {
	return fmt.Sprintf("%d %d %d %d %d %v", d.watermark, d.read, d.passed, d.late, d.dead, d.open)
}

// parse reads the data of a lane; one that has saved nothing has none.
func (d *simData) parse(lane []byte) {
	_, text, _ := strings.Cut(string(lane), "|")
	fields := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" []", r) })
	numbers := []*int64{&d.watermark, &d.read, &d.passed, &d.late, &d.dead}
	for i, f := range fields {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			panic(err) // written above
		}
		if i < len(numbers) {
			*numbers[i] = n
		} else {
			d.open = append(d.open, n)
		}
	}
}

func batchName(lane []byte) string {
	name, _, _ := strings.Cut(string(lane), "|")
	return name
}

// touched are the names of the values that the records may change, in order.
func (f *simFold) touched() []string { return slices.Sorted(maps.Keys(f.wanted)) }

// need finds out which values the records need. Any open window may be closed.
func (f *simFold) need(records []simRecord) {
	f.wanted = map[string]bool{}
	if len(records) == 0 {
		return
	}
	for _, r := range records {
		if !r.poison {
			f.wanted[r.key], f.wanted[windowName(r.window())] = true, true
		}
	}
	for _, start := range f.data.open {
		f.wanted[windowName(start)] = true
	}
}

func (r simRecord) window() int64 { return r.at - r.at%simWindow }

func windowName(start int64) string { return "w" + strconv.FormatInt(start, 10) }

// set sets a value as it is stored, "": none.
func (f *simFold) set(name, stored string) {
	if stored == "" {
		delete(f.values, name)
		return
	}
	n, err := strconv.ParseInt(stored, 10, 64)
	if err != nil {
		panic(err) // written by batch
	}
	f.values[name] = n
}

// simClosed is a window that is complete.
type simClosed struct{ start, sum int64 }

// advance adds the records, and returns the windows that they close.
func (f *simFold) advance(records []simRecord) (closed []simClosed) {
	for _, r := range records {
		f.data.read++
		if r.poison {
			f.data.dead++
			continue
		}
		f.data.passed++
		f.values[r.key] += r.amount
		f.inWindow(r)
		f.data.watermark = max(f.data.watermark, r.at)
		f.data.open = slices.DeleteFunc(f.data.open, func(start int64) bool {
			over := f.over(start)
			if over {
				closed = append(closed, simClosed{start, f.values[windowName(start)]})
				delete(f.values, windowName(start))
			}
			return over
		})
	}
	return closed
}

// inWindow adds a record to its window, unless it is late.
func (f *simFold) inWindow(r simRecord) {
	start := r.window()
	if f.over(start) {
		f.data.late++
		return
	}
	if !slices.Contains(f.data.open, start) {
		f.data.open = append(f.data.open, start)
	}
	f.values[windowName(start)] += r.amount
}

func (f *simFold) over(start int64) bool { return start+simWindow+simLateness <= f.data.watermark }

func (f *simFold) clone() *simFold {
	c := *f
	c.values, c.data.open = maps.Clone(f.values), slices.Clone(f.data.open)
	return &c
}

// stateKeyOf is where a value is stored: each window's apart.
func stateKeyOf(name string) framework.StateKey {
	if start, ok := strings.CutPrefix(name, "w"); ok {
		n, _ := strconv.ParseInt(start, 10, 64)
		return framework.StateKey{Operator: "windows", Window: n, Key: []byte("all")}
	}
	return framework.StateKey{Operator: "totals", Key: []byte(name)}
}

// stored returns a value as a reader finds it, "": none.
func (l *simLane) stored(name string) string {
	row := l.w.db.ledger[l.key]
	if row == nil {
		return ""
	}
	k := stateKeyOf(name)
	b := stateBucket{lane: l.key, operator: k.Operator, gen: row.gen, window: k.Window, bucket: bucketOf(k.Key)}
	return string(l.w.db.readState(b, [][]byte{k.Key})[string(k.Key)])
}

// value returns a value as it would be stored.
func (f *simFold) value(name string) string {
	if n, ok := f.values[name]; ok {
		return strconv.FormatInt(n, 10)
	}
	return ""
}
