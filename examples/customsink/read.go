package customsink

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Table holds the rows of all pipelines below a directory, as of the last
// Refresh. One goroutine at a time may use it.
type Table struct {
	Rows map[string]string // value by key
	root string
	next map[string]int // number of the next file, by log
}

// NewTable returns a table without rows.
func NewTable(root string) *Table {
	return &Table{Rows: map[string]string{}, root: root, next: map[string]int{}}
}

// Refresh reads what was saved since the last time.
func (t *Table) Refresh() error {
	logs, err := fs.Glob(os.DirFS(t.root), "p-*/t-*/[0-9]*")
	if err != nil {
		return fmt.Errorf("customsink: %w", err)
	}
	for _, log := range logs {
		if err := readLog(filepath.Join(t.root, log), t.next[log], func(e entry) {
			t.next[log]++
			t.apply(e.Writes)
		}); err != nil {
			return fmt.Errorf("customsink: %w", err)
		}
	}
	return nil
}

func (t *Table) apply(writes []Write) {
	for _, w := range writes {
		if w.Delete {
			delete(t.Rows, w.Key)
		} else {
			t.Rows[w.Key] = w.Value
		}
	}
}

// DeadLetters implements [framework.DeadLetterLister].
func (s *Sink) DeadLetters(ctx context.Context, pipeline string, tp offsetstore.TopicPartition) (all []framework.DeadLetter, err error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("customsink: pipeline %q: dead letters of %s: %w", pipeline, tp, err)
	}
	defer leave()
	err = readLog(s.logDir(pipeline, tp), 0, func(e entry) {
		for _, d := range e.DeadLetters {
			all = append(all, d.whole())
		}
	})
	if err != nil {
		return nil, fmt.Errorf("customsink: pipeline %q: dead letters of %s: %w", pipeline, tp, err)
	}
	return all, nil
}
