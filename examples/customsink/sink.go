package customsink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Write is what handlers return: it replaces the row of Key, or removes it.
type Write struct {
	Key    string
	Value  string `json:",omitempty"`
	Delete bool   `json:",omitempty"`
}

// snippet:start sink

// Sink is one process's handle to the files below a directory.
type Sink struct {
	root   string
	mu     sync.RWMutex // held for reading during a call, so that Close waits for it
	closed bool
}

var _ framework.Sink[Write] = (*Sink)(nil)

// Open returns a sink that keeps its files below root, a directory that exists.
func Open(root string) (*Sink, error) {
	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("customsink: %w: %q is not a directory; make it first (%w)", framework.ErrConfig, root, err)
	}
	return &Sink{root: filepath.Clean(root)}, nil
}

// enter begins a call, unless something speaks against it.
func (s *Sink) enter(ctx context.Context) (leave func(), err error) {
	s.mu.RLock()
	if err = ctx.Err(); s.closed {
		err = framework.ErrClosed
	}
	if err != nil {
		s.mu.RUnlock()
	}
	return s.mu.RUnlock, err
}

// Close waits for calls in flight, which are short, so that no save takes effect
// after it has returned.
func (s *Sink) Close(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// snippet:end

// snippet:start check

// Guarantee promises everything.
func (s *Sink) Guarantee() framework.Guarantee {
	return framework.Guarantee{Level: framework.ExactlyOnce, State: true, DeadLetters: true, Note: "on a local file system"}
}

// Check refuses what JSON would not give back unchanged.
func (s *Sink) Check(w Write) (int, error) {
	switch {
	case w.Key == "":
		return 0, errors.New("customsink: the key is empty")
	case !utf8.ValidString(w.Key), !utf8.ValidString(w.Value):
		return 0, fmt.Errorf("customsink: the row of key %.100q is not UTF-8", w.Key)
	}
	return len(w.Key) + len(w.Value) + len(`{"Key":"","Value":""}`), nil
}

// snippet:end

// snippet:start topic

// Topic stores propose, unless another was first, and returns what is stored.
func (s *Sink) Topic(ctx context.Context, pipeline, topic string, propose framework.TopicStart) (stored framework.TopicStart, err error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return stored, fmt.Errorf("customsink: pipeline %q: topic %s: %w", pipeline, topic, err)
	}
	defer leave()
	dir := topicDir(s.root, pipeline, topic)
	path := filepath.Join(dir, "topic")
	data, err := json.Marshal(propose)
	if err = errors.Join(err, makeDir(s.root, dir)); err == nil {
		_, err = publish(path, data)
	}
	if err == nil || errors.Is(err, fs.ErrExist) {
		data, err = os.ReadFile(path)
	}
	if err == nil {
		if err = json.Unmarshal(data, &stored); err != nil {
			err = fmt.Errorf("%w: %s: %w", framework.ErrCorrupt, path, err)
		}
	}
	if err != nil {
		return stored, fmt.Errorf("customsink: pipeline %q: topic %s: %w", pipeline, topic, err)
	}
	return stored, nil
}

// snippet:end

// snippet:start claim

// Claim reads the log and adds a file to it. From then on a former owner, who
// means to take the same number or an earlier one for a save, finds it taken.
func (s *Sink) Claim(ctx context.Context, pipeline string, tp offsetstore.TopicPartition, start offsetstore.Position) (framework.Claim[Write], error) {
	c := &claim{
		sink: s, pipeline: pipeline, tp: tp,
		dir:   s.logDir(pipeline, tp),
		at:    framework.Progress{Position: start}, // unless the log says otherwise
		state: map[stateKey][]byte{},
	}
	if err := c.take(ctx); err != nil {
		return nil, c.wrap("claim", err)
	}
	c.claimed = c.at
	return c, nil
}

func (c *claim) take(ctx context.Context) error {
	leave, err := c.sink.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if err := makeDir(c.sink.root, c.dir); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := readLog(c.dir, c.next, c.apply); err != nil {
			return err
		}
		_, err := c.add(&framework.Batch[Write]{To: c.at})
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		// Somebody saved or claimed in between: read on, and try the next number.
	}
	return ctx.Err()
}

// snippet:end

func (s *Sink) logDir(pipeline string, tp offsetstore.TopicPartition) string {
	return filepath.Join(topicDir(s.root, pipeline, tp.Topic), strconv.Itoa(int(tp.Partition)))
}
