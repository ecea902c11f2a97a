package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// patience is how long the positions may stand still.
const patience = time.Minute

// crash runs the pipeline's process and kills it at a random moment within the
// i-th part of the log. It is told to stand still at the end of that part, so
// that the position is strictly inside the log however long the kill takes.
func (d *demo) crash(ctx context.Context, i int, saving progress) error {
	part := d.events * 9 / 10 / max(d.crashes, 1)
	from, until := i*part, (i+1)*part
	at := from + part/4 + d.random.IntN(part/2)

	before, err := d.reader.Positions(ctx, d.topic)
	if err != nil {
		return err
	}
	c, err := d.startChild(before, int64(until)-sum(before))
	if err != nil {
		return err
	}
	defer c.kill()
	ends := d.model.Ends()
	there := func(positions map[int32]int64) bool {
		return sum(positions) >= int64(at) && len(inside(positions, ends)) > 0
	}
	if err := d.awaitSaved(ctx, c, saving, there); err != nil {
		return err
	}
	time.Sleep(time.Duration(d.random.Int64N(int64(30 * time.Millisecond))))
	c.kill()
	return d.sayCrash(ctx, i)
}

// sayCrash prints where the crash was, according to the database, and requires
// that it was inside the log.
func (d *demo) sayCrash(ctx context.Context, i int) error {
	positions, err := d.reader.Positions(ctx, d.topic)
	if err != nil {
		return err
	}
	saved, ends := sum(positions), d.model.Ends()
	hit := inside(positions, ends)
	if len(hit) == 0 {
		return fmt.Errorf("crash %d came at %d of %d events, and no partition's position is inside its log", i+1, saved, d.events)
	}
	d.screen.say("crash %d of %d: SIGKILL with %d of %d events saved, inside the log of partition %s", i+1, d.crashes, saved, d.events, list(hit))
	d.screen.positions(d.topic, positions, ends)
	return nil
}

// inside returns the partitions that had begun and not finished, in order.
func inside(positions, ends map[int32]int64) (partitions []int32) {
	for _, p := range slices.Sorted(maps.Keys(ends)) {
		if 0 < positions[p] && positions[p] < ends[p] {
			partitions = append(partitions, p)
		}
	}
	return partitions
}

func list(partitions []int32) string {
	names := make([]string, len(partitions))
	for i, p := range partitions {
		names[i] = fmt.Sprint(p)
	}
	return strings.Join(names, ", ")
}

// finish runs the pipeline's process to the end of the log and stops it in
// order.
func (d *demo) finish(ctx context.Context, saving progress) error {
	before, err := d.reader.Positions(ctx, d.topic)
	if err != nil {
		return err
	}
	c, err := d.startChild(before, 0)
	if err != nil {
		return err
	}
	defer c.kill()
	ends := d.model.Ends()
	atEnd := func(positions map[int32]int64) bool {
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

// awaitSaved returns when done says so of the positions that the process tells.
// The database is not asked: it has better things to do.
func (d *demo) awaitSaved(ctx context.Context, c *child, saving progress, done func(positions map[int32]int64) bool) error {
	for {
		positions := c.told.now()
		saving.set(int(sum(positions)))
		if done(positions) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(patience):
			return c.failed(fmt.Errorf("nothing was saved for %v, after %d of %d events", patience, sum(positions), d.events))
		case <-c.ended:
			return c.endedEarly(ctx)
		case <-c.told.moved:
		}
	}
}

// sum returns how many events the positions say are saved. Every offset holds an
// event: the topic is our own and has no gaps.
func sum(positions map[int32]int64) (n int64) {
	for _, p := range positions {
		n += p
	}
	return n
}
