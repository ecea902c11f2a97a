package simulation

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/memory"
)

// check compares what is stored with what the log holds.
func (w *world) check(ends map[offsetstore.TopicPartition]int64) {
	sums := memory.Rows(w.db.store, "sums")
	for tp, end := range ends {
		lane, _ := w.db.store.Lane(pipelineName, tp)
		c := &laneCheck{world: w, tp: tp, lane: lane, records: w.readLog(tp, end)}
		c.chain()
		c.rows()
		c.deadLetters()
		c.counters()
		c.sums(sums)
	}
}

// readLog returns the committed records of a partition up to and with end.
func (w *world) readLog(tp offsetstore.TopicPartition, end int64) map[int64]string {
	cl := w.newClient(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{tp.Topic: {tp.Partition: kgo.NewOffset().AtStart()}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	records, last := map[int64]string{}, int64(-1)
	for last < end {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			w.errorf("%s: the log cannot be read back: %v", tp, err)
			return records
		}
		fetches.EachRecord(func(r *kgo.Record) {
			records[r.Offset], last = string(r.Value), r.Offset
		})
	}
	w.db.totals.add("offsets without a record", int(end)+1-len(records))
	w.db.totals.add("records", len(records))
	return records
}

type laneCheck struct {
	world   *world
	tp      offsetstore.TopicPartition
	lane    memory.Lane[memory.Row]
	records map[int64]string // in the log at the end
	saved   map[int64]string // by rows
	dead    map[int64]string // by dead letters
}

func (c *laneCheck) errorf(format string, args ...any) {
	c.world.errorf("%s: "+format, append([]any{c.tp}, args...)...)
}

// chain: the committed saves join end to start, from 0 to the stored position.
func (c *laneCheck) chain() {
	at := int64(0)
	for _, l := range c.world.db.chains[c.tp] {
		if l.from != at || l.to < l.from {
			c.errorf("a save went from %d to %d where %d was stored", l.from, l.to, at)
		}
		at = l.to
	}
	if at != c.lane.Position.Offset {
		c.errorf("the saves lead to %d, and stored is %d", at, c.lane.Position.Offset)
	}
}

// rows: each wanted record once, as it is in the log. What compaction has removed
// meanwhile may have been seen, once.
func (c *laneCheck) rows() {
	c.saved = map[int64]string{}
	for _, row := range c.lane.Writes {
		if row.Table != "events" {
			continue
		}
		offset := offsetOf(row.Key)
		if _, twice := c.saved[offset]; twice {
			c.errorf("record %d was saved twice", offset)
		}
		c.saved[offset] = row.Value.(string)
		c.mustMatch("row", offset, row.Value.(string))
	}
	for offset, text := range c.records {
		if e, err := parse(text); err == nil && wanted(e) && c.saved[offset] != text {
			c.errorf("record %d, %q, is lost", offset, text)
		}
	}
}

// mustMatch compares what was saved for an offset with the log.
func (c *laneCheck) mustMatch(what string, offset int64, text string) {
	inLog, ok := c.records[offset]
	if ok && inLog != text || !ok && c.tp.Topic != compacted {
		c.errorf("the %s of record %d holds %q, and the log %q", what, offset, text, inLog)
	}
}

// deadLetters: each poisonous record once.
func (c *laneCheck) deadLetters() {
	c.dead = map[int64]string{}
	for _, d := range c.lane.DeadLetters {
		if _, twice := c.dead[d.Offset]; twice {
			c.errorf("record %d has two dead letters", d.Offset)
		}
		c.dead[d.Offset] = string(d.Value)
		c.mustMatch("dead letter", d.Offset, string(d.Value))
		if d.Attempts != 2 {
			c.errorf("dead letter %d: %d attempts, want 2", d.Offset, d.Attempts)
		}
	}
	for offset, text := range c.records {
		if _, err := parse(text); err != nil && c.dead[offset] != text {
			c.errorf("poisonous record %d, %q, is lost", offset, text)
		}
	}
	c.world.db.totals.add("dead letters", len(c.dead))
}

// counters: they agree with the rows and dead letters, and with the log where it is
// whole.
func (c *laneCheck) counters() {
	n, err := framework.DecodeCounters(c.lane.Lane)
	if err != nil {
		c.errorf("%v", err)
	}
	if n.Passed != int64(len(c.saved)) || n.DeadLettered != int64(len(c.dead)) || n.Skipped != 0 || n.Lost != 0 ||
		n.Read != n.Passed+n.Filtered+n.DeadLettered {
		c.errorf("the counters are %+v with %d rows and %d dead letters", n, len(c.saved), len(c.dead))
	}
	if c.tp.Topic == plain && n.Read != int64(len(c.records)) {
		c.errorf("%d records were read of %d", n.Read, len(c.records))
	}
	c.world.db.totals.add("records delivered again and ignored", int(n.AlreadySaved))
}

// sums: each total, in its row and in the state, is the sum over the saved rows.
func (c *laneCheck) sums(rows map[string]any) {
	want := map[string]int64{}
	for _, text := range c.saved {
		e, _ := parse(text)
		want[e.key] += e.amount
	}
	for key, sum := range want {
		if got := rows[sumKey(c.tp.Topic, c.tp.Partition, key)]; got != sum {
			c.errorf("the total of %s is %v, want %d", key, got, sum)
		}
	}
	if keys := slices.Collect(maps.Keys(want)); len(c.lane.State) != len(keys) {
		c.errorf("there is state for %d keys, want %d", len(c.lane.State), len(keys))
	}
}

// offsetOf is the offset in a row's key.
func offsetOf(rowKey string) int64 {
	_, offset, _ := strings.Cut(rowKey, "@")
	n, _ := strconv.ParseInt(offset, 10, 64)
	return n
}
