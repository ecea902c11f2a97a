package framework

import (
	"errors"
	"fmt"
	"time"
)

// batch is a Batch on its way, with what the lane needs to know of it.
type batch[W any] struct {
	Batch[W]
	records  int
	bytes    int
	read     int // bytes of its records' payloads
	limit    int // of bytes
	room     int // of what it keeps in memory beside: read, and pairs of reductions
	counters Counters
	marks    marks
}

// marks is where a batch stood before the record that is being processed.
type marks struct {
	writes, bytes int
	barriers      []int
}

// mark notes where the batch stands before a record.
func (l *lane[W]) mark() {
	t := l.tenure
	m := &t.cur.marks
	m.writes, m.bytes = len(t.cur.Writes), t.cur.bytes
	m.barriers = m.barriers[:0]
	for _, b := range t.chain.barriers {
		m.barriers = append(m.barriers, b.mark())
	}
}

// rollback takes back what the record since mark has added.
func (l *lane[W]) rollback() {
	c := &l.tenure.cur
	clear(c.Writes[c.marks.writes:])
	c.Writes, c.bytes = c.Writes[:c.marks.writes], c.marks.bytes
	for i, b := range l.tenure.chain.barriers {
		b.rollback(c.marks.barriers[i])
	}
}

// changed reports whether the record since mark has added anything.
func (l *lane[W]) changed() bool {
	c := &l.tenure.cur
	if len(c.Writes) > c.marks.writes {
		return true
	}
	for i, b := range l.tenure.chain.barriers {
		if b.mark() > c.marks.barriers[i] {
			return true
		}
	}
	return false
}

// seal closes the batch: reductions load what they lack, fold, and send their
// totals downstream. If that fails, smaller batches lead to the record at fault,
// and the lane ends before it.
func (l *lane[W]) seal() error {
	t := l.tenure
	t.stage = "reduce"
	if err := l.closeBarriers(); err != nil {
		return err
	}
	t.stage = "process"
	t.timer.Stop()
	t.overdue.Store(false)

	c := t.cur
	c.counters = t.counters
	c.From = t.saved
	if t.saving != nil {
		c.From = t.saving.To
	}
	c.To = Progress{t.end.Position, encodeLane(t.counters)}
	c.To.Position.TopicID = orDefault(c.To.Position.TopicID, l.topicID)
	t.sealed = &c
	t.cur = t.fresh(l.e)
	l.inbox.hold(c.bytes)
	return nil
}

// fresh returns an empty batch, in memory used before if there is some. Its limits
// follow the lane's share of memory. A write or a pair may refer to its record,
// and through it to everything that was delivered with it, so the bytes of the
// records count too, filtered ones included.
func (t *tenure[W]) fresh(e *engine[W]) batch[W] {
	share := e.laneLimit()
	limit, room := min(e.cfg.BatchBytes, max(1, share/4)), 2*share
	if t.spare == nil {
		return batch[W]{limit: limit, room: room}
	}
	b := *t.spare
	t.spare = nil
	clear(b.Writes)
	clear(b.State)
	clear(b.DeadLetters)
	return batch[W]{
		Batch: Batch[W]{Writes: b.Writes[:0], State: b.State[:0], DeadLetters: b.DeadLetters[:0]},
		limit: limit,
		room:  room,
		marks: marks{barriers: b.marks.barriers[:0]},
	}
}

func (l *lane[W]) closeBarriers() error {
	t := l.tenure
	if len(t.chain.barriers) == 0 {
		return nil
	}
	if err := l.loadState(); err != nil {
		return err
	}
	p := l.e.pipeline.policies[StageHandler]
	pauses := p.pauses()
	l.mark()
	for attempts := 1; ; attempts++ {
		emitted, err := l.reduceOnce()
		if err == nil {
			l.takeState(emitted)
			return nil
		}
		l.unreduce()
		if l.limits.halve(t.cur.records) {
			return fmt.Errorf("%s: %w", t.call.stage.name, err)
		}
		if attempts > p.Retries {
			return &RecordError{l.e.pipeline.name, l.tp, t.end.Position.Offset - 1, t.call.stage.name, attempts, err}
		}
		if !l.pause(pauses.NextBackOff()) {
			return errGone
		}
	}
}

// loadState brings the totals of all touched keys into memory in one round.
func (l *lane[W]) loadState() error {
	t := l.tenure
	var keys []StateKey
	var counts []int
	for _, b := range t.chain.barriers {
		k := b.missing()
		keys, counts = append(keys, k...), append(counts, len(k))
	}
	if len(keys) == 0 {
		return nil
	}
	values, err := t.claim.Load(l.ctx, keys)
	if err != nil {
		return fmt.Errorf("load %d saved totals: %w", len(keys), err)
	}
	if len(values) != len(keys) {
		return fmt.Errorf("%w: the sink returned %d values for %d keys", ErrCorrupt, len(values), len(keys))
	}
	for i, b := range t.chain.barriers {
		if err := b.supply(values[:counts[i]]); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrCorrupt, t.call.stage.name, err)
		}
		values = values[counts[i]:]
	}
	return nil
}

// reduceOnce folds and emits, and returns how many bytes each barrier sent
// downstream.
func (l *lane[W]) reduceOnce() (emitted []int, err error) {
	t := l.tenure
	t.call.record = nil
	defer func() {
		if v := recover(); v != nil {
			err = newPanic(v)
		}
	}()
	for _, b := range t.chain.barriers {
		if err := b.fold(); err != nil {
			return nil, err
		}
		before := t.cur.bytes
		if err := b.emit(); err != nil {
			return nil, err
		}
		emitted = append(emitted, t.cur.bytes-before)
	}
	return emitted, nil
}

// unreduce takes back the writes of a failed reduceOnce. The pairs stay: they
// are what is reduced again.
func (l *lane[W]) unreduce() {
	c := &l.tenure.cur
	clear(c.Writes[c.marks.writes:])
	c.Writes, c.bytes = c.Writes[:c.marks.writes], c.marks.bytes
}

// takeState moves the new totals into the batch.
func (l *lane[W]) takeState(emitted []int) {
	c := &l.tenure.cur
	for i, b := range l.tenure.chain.barriers {
		c.State = b.seal(c.State, emitted[i])
	}
	for i := range c.State {
		c.bytes += c.State[i].size()
	}
}

// launch starts to save the sealed batch if no save is in flight.
func (l *lane[W]) launch() {
	t := l.tenure
	if t.sealed == nil || t.saving != nil {
		return
	}
	t.saving, t.sealed = t.sealed, nil
	go l.save(t, &t.saving.Batch)
}

// errGoexit is the result of a save whose goroutine the sink has ended.
var errGoexit = &SaveError{Outcome: Unknown, ClaimSpent: true, Err: errors.New("the save's goroutine was ended by the sink (runtime.Goexit)")}

// save is the goroutine of one save. It delivers a result however it ends.
func (l *lane[W]) save(t *tenure[W], b *Batch[W]) {
	r := result{err: errGoexit}
	defer func() {
		t.results <- r
		l.attend()
	}()
	l.reached(PointBeforeSave)
	began := time.Now()
	err := t.save(l.ctx, b)
	r = result{err, time.Since(began)}
}

// landed takes the result of the save in flight.
func (l *lane[W]) landed(r result) error {
	t := l.tenure
	b := t.saving
	t.saving = nil
	l.inbox.hold(-b.bytes)
	if r.err != nil {
		t.stage = "save"
		return l.unsaved(b, r.err)
	}
	l.advance(b, r.took)
	return nil
}

// advance notes that a batch is saved, and tells others.
func (l *lane[W]) advance(b *batch[W], took time.Duration) {
	t := l.tenure
	l.reached(PointAfterSave)
	t.saved, t.savedAt = b.To, time.Now()
	for _, r := range t.chain.barriers {
		r.saved()
	}
	l.recovery.reset()
	l.limits.succeeded()
	l.status.set(func(s *LaneStatus) { s.Position, s.Counters = b.To.Position, b.counters })
	l.part.Mirror(b.To.Position)
	notify(l.e.cfg.Hooks.Saved, SavedEvent{
		Pipeline: l.e.pipeline.name, TopicPartition: l.tp,
		From: b.From.Position.Offset, To: b.To.Position.Offset,
		Records: b.records, Writes: len(b.Writes), Bytes: b.bytes, Took: took, Counters: b.counters,
	})
	t.spare = b
}

// unsaved prepares the next tenure after a batch that can never be saved as it
// is.
func (l *lane[W]) unsaved(b *batch[W], err error) error {
	if !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrRefused) {
		return err
	}
	last := b.To.Position.Offset - 1
	if l.limits.blame(b.records, last, err) {
		return err
	}
	return &RecordError{l.e.pipeline.name, l.tp, last, outputStage.name, 1, fmt.Errorf("neither its outputs nor its dead letter can be saved: %w", err)}
}
