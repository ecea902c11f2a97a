package customsink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// claim is the ownership of one partition, for as long as nobody else has added
// to its log.
type claim struct {
	sink     *Sink
	pipeline string
	tp       offsetstore.TopicPartition
	dir      string
	claimed  framework.Progress // as of the claim

	mu    sync.Mutex // a Load may overlap a Save
	next  int        // the number of the file to add
	at    framework.Progress
	state map[stateKey][]byte
}

// stateKey is a framework.StateKey that can be compared.
type stateKey struct {
	operator string
	window   int64
	key      string
}

// snippet:start save

// Save adds a file with all of b. That is the commit: there is no moment at which
// a part of it is stored.
func (c *claim) Save(ctx context.Context, b *framework.Batch[Write]) error {
	leave, err := c.sink.enter(ctx)
	if err != nil {
		return c.failed(framework.NotSaved, errors.Is(err, framework.ErrClosed), err)
	}
	defer leave()
	if at := c.at.Position.Offset; b.From.Position.Offset != at {
		err := fmt.Errorf("%w: the batch continues from offset %d, stored is %d", framework.ErrCorrupt, b.From.Position.Offset, at)
		return c.failed(framework.NotSaved, true, err)
	}
	linked, err := c.add(b)
	switch {
	case err == nil:
		return nil
	case !linked: // a full disk, say; the claim is as good as before
		return c.failed(framework.NotSaved, false, err)
	case errors.Is(err, fs.ErrExist):
		return c.failed(framework.NotSaved, true, fmt.Errorf("%w (%w)", framework.ErrFenced, err))
	default: // only a new claim can find out
		return c.failed(framework.Unknown, true, fmt.Errorf("%w: %w", framework.ErrUnknown, err))
	}
}

// add adds a file to the log and then applies to c what is in it, by the same
// code that a claim reads it with. Nothing of b is retained.
func (c *claim) add(b *framework.Batch[Write]) (linked bool, err error) {
	data, err := encode(b)
	if err != nil {
		return false, err
	}
	if linked, err = publish(logFile(c.dir, c.next), data); err != nil {
		return linked, err
	}
	return true, decode(data, c.apply)
}

func (c *claim) failed(outcome framework.Outcome, spent bool, err error) error {
	return &framework.SaveError{Outcome: outcome, ClaimSpent: spent, Err: c.wrap("save", err)}
}

func (c *claim) wrap(what string, err error) error {
	return fmt.Errorf("customsink: pipeline %q: %s of %s: %w", c.pipeline, what, c.tp, err)
}

// snippet:end

// apply does to c what the next file of the log says.
func (c *claim) apply(e entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	c.at = e.To
	for _, s := range e.State {
		key := stateKey{string(s.Operator), s.Window, string(s.Key)}
		if s.Value == nil {
			delete(c.state, key)
		} else {
			c.state[key] = s.Value
		}
	}
}

// Progress returns what was saved last, as of the claim.
func (c *claim) Progress() framework.Progress {
	return framework.Progress{Position: c.claimed.Position, Lane: bytes.Clone(c.claimed.Lane)}
}

// Load returns the value of each key, nil where there is none.
func (c *claim) Load(ctx context.Context, keys []framework.StateKey) ([][]byte, error) {
	leave, err := c.sink.enter(ctx)
	if err != nil {
		return nil, c.wrap("load", err)
	}
	defer leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	values := make([][]byte, len(keys))
	for i, k := range keys {
		values[i] = bytes.Clone(c.state[stateKey{k.Operator, k.Window, string(k.Key)}])
	}
	return values, nil
}

// Release has nothing to do: a claim holds no lock and no lease.
func (c *claim) Release(context.Context) error { return nil }
