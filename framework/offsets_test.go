package framework_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
)

// Whatever gaps and repetitions a log has, wherever runs end and however much of
// what is saved retention takes away: each offset counts once, and the position is
// behind the last.
func FuzzOffsets(f *testing.F) {
	const appends, gap, repeat, run, retain = 0, 1, 2, 3, 4
	f.Add([]byte{1, appends, appends, run, repeat, gap | 9<<3, run, retain, appends})
	f.Add([]byte{0, repeat, repeat, gap | 31<<3, repeat, repeat})
	f.Add([]byte{4, gap | 1<<3, appends, repeat, appends, repeat, repeat, run, run, repeat, retain, run})
	f.Fuzz(func(t *testing.T, steps []byte) {
		if len(steps) == 0 || len(steps) > 100 {
			return
		}
		onBed(t, func(b *bed) {
			b.cfg.BatchRecords = int(steps[0]%8) + 1
			b.log.Create("in", 1)
			p := pipelineOf(t, copyAndSum)
			var offsets []int64
			next := int64(0)
			for _, step := range steps[1:] {
				switch step % 8 {
				case gap:
					next += int64(step >> 3)
				case repeat:
					next = max(next-1, 0)
				case run:
					b.mustRun(p)
					continue
				case retain:
					b.mustRun(p)
					b.log.Retain("in", 0, next)
					continue
				}
				b.log.Append("in", 0, framework.Record{Offset: next, Value: []byte("a=1")})
				offsets = append(offsets, next)
				next++
			}
			b.mustRun(p)
			offsets = slices.Compact(offsets) // what retention took away is among them
			var rows []string
			for _, o := range offsets {
				rows = append(rows, fmt.Sprintf("in/0@%d: a=1", o))
			}
			slices.Sort(rows)
			b.wantRows("copy", rows...)
			b.wantOnce()
			if n := len(offsets); n > 0 {
				b.wantTotals(map[string]int{"a": n})
				b.wantPosition(in0, next)
			}
		})
	})
}
