package main

import (
	"bytes"
	"maps"
	"sync"

	"github.com/lockstep-stream/lockstep/examples/exactlyonce/app"
)

// told is where the positions are according to the pipeline's process: its
// standard output goes here. It is safe for concurrent use.
type told struct {
	moved chan struct{} // has an element if positions changed

	mu        sync.Mutex
	line      []byte // not ended yet
	positions map[int32]int64
}

func newTold(positions map[int32]int64) *told {
	t := &told{moved: make(chan struct{}, 1), positions: map[int32]int64{}}
	maps.Copy(t.positions, positions)
	return t
}

// Write takes lines as [app.ParsePosition] reads them, in pieces of any length.
func (t *told) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line = append(t.line, p...)
	for {
		end := bytes.IndexByte(t.line, '\n') + 1
		if end == 0 {
			return len(p), nil
		}
		partition, next, err := app.ParsePosition(string(t.line[:end]))
		if err != nil {
			return 0, err
		}
		t.line = t.line[end:]
		t.move(partition, next)
	}
}

// move tells who waits only what is news: a process that claims the same position
// again and again gets nowhere.
func (t *told) move(partition int32, next int64) {
	if t.positions[partition] == next {
		return
	}
	t.positions[partition] = next
	select {
	case t.moved <- struct{}{}:
	default:
	}
}

// now returns the positions by partition.
func (t *told) now() map[int32]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.positions)
}
