package positions

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/memory"
)

// result is all that is stored for one partition of a pipeline, in a form that can
// be compared.
type result struct {
	Position int64
	TopicID  offsetstore.TopicID
	Copies   []string // in the order of their saves
	Totals   map[string]int
	State    map[string]int
	Dead     []string
	Counters framework.Counters
}

// model says what must be stored once the lines have been processed, each once, and
// the position stands at end.
func model(tp part, lines []line, end int64) result {
	r := result{Position: end, Totals: map[string]int{}}
	for _, l := range lines {
		r.Counters.Read++
		var p pair
		if json.Unmarshal([]byte(l.text), &p) != nil {
			r.Counters.DeadLettered++
			r.Dead = append(r.Dead, entry(tp, l.offset, l.text))
			continue
		}
		r.Counters.Passed++
		r.Copies = append(r.Copies, entry(tp, l.offset, l.text))
		r.Totals[p.K] += p.N
	}
	r.State = maps.Clone(r.Totals)
	return r
}

func entry(tp part, offset int64, text string) string {
	return fmt.Sprintf("%s@%d %s", tp, offset, text)
}

// end is where a position stands after the lines.
func end(lines []line) int64 {
	if len(lines) == 0 {
		return 0
	}
	return lines[len(lines)-1].offset + 1
}

// stored is what the database holds.
func (b *bed) stored(pipeline string, tp part) result {
	b.t.Helper()
	lane, ok := b.store.Lane(pipeline, tp)
	if !ok {
		b.t.Fatalf("pipeline %q: nothing is stored for %s", pipeline, tp)
	}
	r := result{Position: lane.Position.Offset, TopicID: lane.Position.TopicID, Totals: map[string]int{}, State: b.state(lane)}
	for _, w := range lane.Writes {
		switch w.Table {
		case "copy":
			r.Copies = append(r.Copies, fmt.Sprint(w.Key, " ", w.Value))
		case "sum":
			r.Totals[w.Key] = w.Value.(int)
		}
	}
	for _, d := range lane.DeadLetters {
		r.Dead = append(r.Dead, entry(tp, d.Offset, string(d.Value)))
	}
	var err error
	if r.Counters, err = framework.DecodeCounters(lane.Lane); err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *bed) state(lane memory.Lane[row]) map[string]int {
	b.t.Helper()
	state := map[string]int{}
	for _, e := range lane.State {
		var key string
		var total int
		if json.Unmarshal(e.Key, &key) != nil || json.Unmarshal(e.Value, &total) != nil {
			b.t.Fatalf("state entry %q: %q", e.Key, e.Value)
		}
		state[key] = total
	}
	return state
}

// expect compares what is stored with what should be. A wanted result without a
// topic ID gets the one of today.
func (b *bed) expect(pipeline string, tp part, want result) {
	b.t.Helper()
	if want.TopicID == (offsetstore.TopicID{}) {
		want.TopicID = b.topicID(tp.Topic)
	}
	got := b.stored(pipeline, tp)
	if reflect.DeepEqual(got, want) {
		return
	}
	var diff []string
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		if f, v := g.Field(i).Interface(), w.Field(i).Interface(); !reflect.DeepEqual(f, v) {
			diff = append(diff, fmt.Sprintf("%s: got %v, want %v", g.Type().Field(i).Name, f, v))
		}
	}
	b.t.Errorf("pipeline %q, %s:\n\t%s", pipeline, tp, strings.Join(diff, "\n\t"))
}

// expectAll says that the pipeline holds results for its topics' partitions and no
// others, and that each record was processed once, from the offsets in from on where
// they are given.
func (b *bed) expectAll(pipeline string, from map[part]int64, topics ...string) {
	b.t.Helper()
	var want []part
	for tp, lines := range b.log {
		if slices.Contains(topics, tp.Topic) {
			want = append(want, tp)
			b.expect(pipeline, tp, model(tp, since(lines, from[tp]), end(lines)))
		}
	}
	b.expectPartitions(pipeline, want)
}

func (b *bed) expectPartitions(pipeline string, want []part) {
	b.t.Helper()
	positions, err := b.store.Open(memory.Options[row]{}).Positions(b.t.Context(), pipeline)
	if err != nil {
		b.t.Fatal(err)
	}
	var got, wanted []string
	for _, p := range positions {
		got = append(got, p.String())
	}
	for _, tp := range want {
		wanted = append(wanted, tp.String())
	}
	slices.Sort(got)
	slices.Sort(wanted)
	if !slices.Equal(got, wanted) {
		b.t.Errorf("pipeline %q holds positions of %v, want %v", pipeline, got, wanted)
	}
}

// since returns the lines from an offset on.
func since(lines []line, offset int64) []line {
	i := slices.IndexFunc(lines, func(l line) bool { return l.offset >= offset })
	if i < 0 {
		return nil
	}
	return lines[i:]
}

// until returns the lines below an offset.
func until(lines []line, offset int64) []line {
	return lines[:len(lines)-len(since(lines, offset))]
}
