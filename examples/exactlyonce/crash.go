package main

import (
	"context"
	"fmt"
	"time"
)

// The pipeline's process is watched by asking the database for the positions.
const (
	pollInterval = 20 * time.Millisecond
	// patience is how long the positions may stand still.
	patience = time.Minute
)

// crash runs the pipeline's process and kills it at a random moment within the
// i-th part of the log. It is told to stand still at the end of that part, so
// that the position is strictly inside the log however long the kill takes.
func (d *demo) crash(ctx context.Context, i int, saving progress) error {
	part := d.events * 9 / 10 / max(d.crashes, 1)
	from, until := i*part, (i+1)*part
	at := from + part/4 + d.random.IntN(part/2)

	before, err := d.saved(ctx)
	if err != nil {
		return err
	}
	c, err := d.startChild(int64(until) - before)
	if err != nil {
		return err
	}
	defer c.kill()
	if err := d.awaitSaved(ctx, c, saving, func(_ map[int32]int64, saved int64) bool { return saved >= int64(at) }); err != nil {
		return err
	}
	time.Sleep(time.Duration(d.random.Int64N(int64(30 * time.Millisecond))))
	c.kill()
	return d.sayCrash(ctx, i)
}

func (d *demo) sayCrash(ctx context.Context, i int) error {
	positions, err := d.reader.Positions(ctx, d.topic)
	if err != nil {
		return err
	}
	saved := sum(positions)
	if !insideTheLog(positions, d.model.Ends()) {
		return fmt.Errorf("crash %d came at %d of %d events, and no partition's position is inside its log", i+1, saved, d.events)
	}
	d.screen.say("crash %d of %d: SIGKILL with %d of %d events saved, at", i+1, d.crashes, saved, d.events)
	d.screen.positions(d.topic, positions, d.model.Ends())
	return nil
}

// insideTheLog reports whether some partition had begun and not finished.
func insideTheLog(positions, ends map[int32]int64) bool {
	for p, end := range ends {
		if 0 < positions[p] && positions[p] < end {
			return true
		}
	}
	return false
}

// finish runs the pipeline's process to the end of the log and stops it in
// order.
func (d *demo) finish(ctx context.Context, saving progress) error {
	c, err := d.startChild(0)
	if err != nil {
		return err
	}
	defer c.kill()
	ends := d.model.Ends()
	atEnd := func(positions map[int32]int64, _ int64) bool {
		for p, end := range ends {
			if positions[p] != end {
				return false
			}
		}
		return true
	}
	if err := d.awaitSaved(ctx, c, saving, atEnd); err != nil {
		return err
	}
	return c.stop(ctx)
}

// awaitSaved returns when done says so of the positions.
func (d *demo) awaitSaved(ctx context.Context, c *child, saving progress, done func(positions map[int32]int64, saved int64) bool) error {
	last, moved := int64(-1), time.Now()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		positions, err := d.reader.Positions(ctx, d.topic)
		if err != nil {
			return err
		}
		saved := sum(positions)
		saving.set(int(saved))
		if done(positions, saved) {
			return nil
		}
		if saved != last {
			last, moved = saved, time.Now()
		}
		if time.Since(moved) > patience {
			return c.failed(fmt.Errorf("nothing was saved for %v, after %d of %d events", patience, saved, d.events))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.ended:
			return c.failed(fmt.Errorf("the pipeline's process ended by itself: %w", c.err))
		case <-ticker.C:
		}
	}
}

// saved returns how many events the positions say are saved. Every offset holds
// an event: the topic is our own and has no gaps.
func (d *demo) saved(ctx context.Context) (int64, error) {
	positions, err := d.reader.Positions(ctx, d.topic)
	return sum(positions), err
}

func sum(positions map[int32]int64) (n int64) {
	for _, p := range positions {
		n += p
	}
	return n
}
