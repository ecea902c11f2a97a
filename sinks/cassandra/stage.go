package cassandra

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-stream/lockstep/framework"
)

// smallestChunk is where dividing chunks ends: a server that refuses so little
// can hold no batch at all.
const smallestChunk = 16 << 10

// stage makes the content of s durable before the commit refers to it. A small
// one travels in the ledger row itself. A larger one must not: a conditional
// statement above the server's largest mutation is accepted and can then never
// be finished, while a plain insert is refused at once and harms nothing.
//
// It may replace s's number and blob: nothing of s has been committed yet, and a
// number under which chunks were written is never used for other bytes.
func (c *claim) stage(ctx context.Context, s *save) error {
	for limits := c.blobLimits(); len(s.blob.chunks) > 0 && !c.inline(s); {
		err := c.writeStage(ctx, s.stageKey(c), s.blob.chunks)
		if err == nil {
			s.staged = true
			return nil
		}
		c.settler.discard(s.stageKey(c))
		if !invalid(err) {
			return err
		}
		if limits.chunk /= 2; limits.chunk < smallestChunk {
			// Not %w: what the batch is matters to the caller, not that the
			// server calls it an invalid statement.
			//nolint:errorlint // wrapped, it would match ErrConfig and pass for a fault of the settings
			return fmt.Errorf("%w: Cassandra refuses a chunk of it: %v; one write is too large for max_mutation_size", framework.ErrTooLarge, err)
		}
		limits.lone = min(limits.lone, limits.chunk)
		if s.blob, s.mutations, err = encodeBlob(s.writes, s.base, c.tables, limits); err != nil {
			return err
		}
		s.seq = c.nextSeq()
	}
	return nil
}

// inline reports whether the ledger row can hold the content itself.
func (c *claim) inline(s *save) bool {
	return len(s.blob.chunks) == 1 && s.blob.bytes <= c.tuning.inlineBytes
}

func (c *claim) blobLimits() blobLimits {
	return blobLimits{chunk: c.tuning.chunkBytes, lone: c.tuning.loneBytes, total: c.tuning.blobBytes}
}

// writeStage writes all chunks, some at a time, each until it is there.
func (c *claim) writeStage(ctx context.Context, key stageKey, chunks [][]byte) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(c.tuning.laneInFlight)
	for n, data := range chunks {
		g.Go(func() error {
			return c.retry(ctx, func() error {
				return c.flight(ctx, len(data), func() error { return c.store.writeChunk(ctx, key, n, data) })
			})
		})
	}
	return g.Wait()
}

// readStage reads the chunks of a committed save, all of them or none.
func (e *engine) readStage(ctx context.Context, key stageKey, n int) ([][]byte, error) {
	var found map[int][]byte
	err := e.retry(ctx, func() (err error) {
		found, err = e.store.readChunks(ctx, key)
		return err
	})
	if err != nil {
		return nil, err
	}
	chunks := make([][]byte, n)
	for i := range chunks {
		data, ok := found[i]
		if !ok {
			return nil, fmt.Errorf("%w: chunk %d of %d is missing", framework.ErrCorrupt, i, n)
		}
		chunks[i] = data
	}
	return chunks, nil
}

// flight runs f while it counts against what the process may have in flight.
func (e *engine) flight(ctx context.Context, size int, f func() error) error {
	if err := e.slots.Acquire(ctx, 1); err != nil {
		return context.Cause(ctx)
	}
	defer e.slots.Release(1)
	weight := min(int64(size), e.tuning.bytesInFlight)
	if err := e.bytes.Acquire(ctx, weight); err != nil {
		return context.Cause(ctx)
	}
	defer e.bytes.Release(weight)
	return f()
}

var errLeaseOver = errors.New("the time to apply it is over")
