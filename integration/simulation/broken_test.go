package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// breakage is a fault built in on purpose: in the database, or in what reaches it.
// The zero value is none.
type breakage struct {
	database func(*world, rowSink) rowSink
	client   func(rowSink) rowSink
}

// These are broken the way people break them. Each has to be seen within a few
// histories, or the check could not fail.
var breakages = []struct {
	name string
	seen string // part of what the check says of it
	breakage
}{
	{"nobody is fenced: whoever saves last wins", "was stored",
		inDatabase(func(_ *world, c *brokenClaim, b *rowBatch) error { return c.overwrite(b) })},
	{"the position is saved before the outputs", "is lost",
		inDatabase(func(w *world, c *brokenClaim, b *rowBatch) error {
			return c.saveInTwo(w, rowBatch{From: b.From, To: b.To},
				rowBatch{From: b.To, To: b.To, Writes: b.Writes, State: b.State, DeadLetters: b.DeadLetters})
		})},
	{"the outputs are saved before the position", "was saved twice",
		inDatabase(func(w *world, c *brokenClaim, b *rowBatch) error {
			return c.saveInTwo(w, rowBatch{From: b.From, To: b.From, Writes: b.Writes, State: b.State, DeadLetters: b.DeadLetters},
				rowBatch{From: b.From, To: b.To})
		})},
	{"the group's offset is the position", "was stored",
		breakage{database: func(w *world, s rowSink) rowSink { return mirrorSink{s, w} }}},
	{"state outlives a save that failed", "the total of",
		breakage{client: func(s rowSink) rowSink { return &cachingSink{rowSink: s, cached: map[string][]byte{}} }}},
	{"an unknown outcome counts as saved", "stored progress is damaged",
		breakage{client: func(s rowSink) rowSink { return trustingSink{s, framework.Unknown} }}},
	{"a failed save counts as saved", "after ten minutes of peace",
		breakage{client: func(s rowSink) rowSink { return trustingSink{s, framework.NotSaved} }}},
}

func TestWhatIsBrokenIsSeen(t *testing.T) {
	const histories = 40
	for _, b := range breakages {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(histories) {
				faults := liveThrough(t, seed, b.breakage).faults
				if i := slices.IndexFunc(faults, func(f string) bool { return strings.Contains(f, b.seen) }); i >= 0 {
					t.Logf("seen in history %d: %s", seed, faults[i])
					return
				}
			}
			t.Errorf("not seen in %d histories", histories)
		})
	}
}

// inDatabase breaks how a database saves.
func inDatabase(save func(*world, *brokenClaim, *rowBatch) error) breakage {
	return breakage{database: func(w *world, s rowSink) rowSink {
		return brokenSink{s, func(c *brokenClaim, b *rowBatch) error { return save(w, c, b) }}
	}}
}

type brokenSink struct {
	rowSink
	save func(*brokenClaim, *rowBatch) error
}

func (s brokenSink) Claim(ctx context.Context, pipeline string, tp offsetstore.TopicPartition, start offsetstore.Position) (rowClaim, error) {
	c, err := s.rowSink.Claim(ctx, pipeline, tp, start)
	return &brokenClaim{rowClaim: c, sink: s, tp: tp}, err
}

type brokenClaim struct {
	rowClaim
	sink brokenSink
	tp   offsetstore.TopicPartition
}

func (c *brokenClaim) Save(_ context.Context, b *rowBatch) error { return c.sink.save(c, b) }

// overwrite saves whoever the owner is and whatever is stored.
func (c *brokenClaim) overwrite(b *rowBatch) error {
	ctx := context.Background()
	err := c.rowClaim.Save(ctx, b)
	if !errors.Is(err, framework.ErrFenced) && !errors.Is(err, framework.ErrCorrupt) {
		return err
	}
	if c.rowClaim, err = c.sink.rowSink.Claim(ctx, pipelineName, c.tp, offsetstore.Position{}); err != nil {
		return err
	}
	blind := *b
	blind.From = c.Progress()
	return c.rowClaim.Save(ctx, &blind)
}

// saveInTwo saves in two steps, and now and then is interrupted between them.
func (c *brokenClaim) saveInTwo(w *world, first, second rowBatch) error {
	ctx := context.Background()
	if err := c.rowClaim.Save(ctx, &first); err != nil {
		return err
	}
	w.mu.Lock()
	w.savesInTwo++
	interrupted := w.savesInTwo%5 == 0
	w.mu.Unlock()
	if interrupted {
		return unknown(fateAnswerLost)
	}
	return c.rowClaim.Save(ctx, &second)
}

// mirrorSink continues where the group has committed, and saves over what is stored.
type mirrorSink struct {
	rowSink
	w *world
}

func (s mirrorSink) Claim(ctx context.Context, pipeline string, tp offsetstore.TopicPartition, start offsetstore.Position) (rowClaim, error) {
	blind := brokenSink{s.rowSink, (*brokenClaim).overwrite}
	c, err := blind.Claim(ctx, pipeline, tp, start)
	if err != nil {
		return nil, err
	}
	progress := c.Progress()
	if group := s.w.cluster.GroupInfo(pipelineName); group != nil {
		progress.Position.Offset = group.Commits[tp.Topic][tp.Partition].Offset
	}
	return mirrorClaim{c, progress}, nil
}

type mirrorClaim struct {
	rowClaim
	progress framework.Progress
}

func (c mirrorClaim) Progress() framework.Progress { return c.progress }

// cachingSink keeps what it was asked to save, and answers with it.
type cachingSink struct {
	rowSink
	mu     sync.Mutex
	cached map[string][]byte
}

func (s *cachingSink) Claim(ctx context.Context, pipeline string, tp offsetstore.TopicPartition, start offsetstore.Position) (rowClaim, error) {
	c, err := s.rowSink.Claim(ctx, pipeline, tp, start)
	if err != nil {
		return nil, err
	}
	return &cachingClaim{c, s, tp}, nil
}

type cachingClaim struct {
	rowClaim
	sink *cachingSink
	tp   offsetstore.TopicPartition
}

func (c *cachingClaim) name(k framework.StateKey) string { return fmt.Sprintf("%s %s", c.tp, k.Key) }

func (c *cachingClaim) Save(ctx context.Context, b *rowBatch) error {
	c.sink.mu.Lock()
	for _, e := range b.State {
		c.sink.cached[c.name(e.StateKey)] = slices.Clone(e.Value)
	}
	c.sink.mu.Unlock()
	return c.rowClaim.Save(ctx, b)
}

func (c *cachingClaim) Load(ctx context.Context, keys []framework.StateKey) ([][]byte, error) {
	values, err := c.rowClaim.Load(ctx, keys)
	if err != nil {
		return nil, err
	}
	c.sink.mu.Lock()
	defer c.sink.mu.Unlock()
	for i, k := range keys {
		if v, ok := c.sink.cached[c.name(k)]; ok {
			values[i] = v
		}
	}
	return values, nil
}

// trustingSink takes saves of an outcome for done.
type trustingSink struct {
	rowSink
	outcome framework.Outcome
}

func (s trustingSink) Claim(ctx context.Context, pipeline string, tp offsetstore.TopicPartition, start offsetstore.Position) (rowClaim, error) {
	c, err := s.rowSink.Claim(ctx, pipeline, tp, start)
	if err != nil {
		return nil, err
	}
	return trustingClaim{c, s.outcome}, nil
}

type trustingClaim struct {
	rowClaim
	outcome framework.Outcome
}

func (c trustingClaim) Save(ctx context.Context, b *rowBatch) error {
	err := c.rowClaim.Save(ctx, b)
	var save *framework.SaveError
	if errors.As(err, &save) && save.Outcome == c.outcome {
		return nil
	}
	return err
}
