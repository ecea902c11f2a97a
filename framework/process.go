package framework

import (
	"errors"
	"fmt"
	"time"
)

// process runs records through the chain until the batch is full, attention is
// wanted, or one fails. It returns how many are done; after an error that is
// the index of the one that failed, which has left no trace.
func (l *lane[W]) process(records []Record) (n int, err error) {
	t := l.tenure
	defer l.recovered(&err)
	for ; n < len(records) && !l.attention.Load() && !l.full(); n++ {
		r := &records[n]
		if fresh, err := l.inOrder(r); err != nil || !fresh {
			if err != nil {
				return n, err
			}
			continue
		}
		if err := l.attempt(r); err != nil {
			return n, err
		}
		t.last = r.Offset
	}
	return n, nil
}

// inOrder tells a record to process from one that was saved before. What was
// saved before this tenure, and a repetition of the last record, are legal;
// anything else that goes back would mean that a record was passed over.
func (l *lane[W]) inOrder(r *Record) (fresh bool, err error) {
	t := l.tenure
	if r.Offset > t.last {
		return true, nil
	}
	if r.Offset < t.start || r.Offset == t.last {
		t.counters.AlreadySaved++
		return false, nil
	}
	return false, &orderError{fmt.Errorf("%w: offset %d arrived after %d; the lane stops, since the lower one may never have been processed", ErrOrder, r.Offset, t.last)}
}

// orderError is the lane's own ErrOrder: a handler's error may wrap that, too.
type orderError struct{ error }

func (e *orderError) Unwrap() error { return e.error }

// attempt runs one record through the chain. If it fails, it leaves no trace.
func (l *lane[W]) attempt(r *Record) error {
	t := l.tenure
	l.mark()
	t.call.record = r
	if err := l.enter(r); err != nil {
		l.rollback()
		return err
	}
	if l.changed() {
		t.counters.Passed++
	} else {
		t.counters.Filtered++
	}
	if !l.positionOnly() {
		t.cur.read += r.payload()
	}
	l.pass(r)
	return nil
}

// enter decodes and handles one record, unless it is known that its outputs
// cannot be saved.
func (l *lane[W]) enter(r *Record) error {
	t := l.tenure
	if r.Offset == l.limits.culprit {
		t.call.stage = outputStage
		return l.limits.cause
	}
	return t.chain.entry(r)
}

// pass moves the end of the batch past a record.
func (l *lane[W]) pass(r *Record) {
	t := l.tenure
	if t.cur.records == 0 {
		t.overdue.Store(false)
		t.timer.Reset(l.e.cfg.BatchDelay)
		if !t.waitingSince.IsZero() {
			// Waiting for the first record is no trouble.
			l.recovery.postpone(time.Since(t.waitingSince))
			t.waitingSince = time.Time{}
		}
	}
	t.counters.Read++
	t.cur.records++
	t.end.Position.Offset = r.Offset + 1
	t.end.Position.LeaderEpoch = r.LeaderEpoch
}

// output is the end of the chain: it takes a write into the batch.
func (l *lane[W]) output(w W) error {
	t := l.tenure
	t.call.stage = outputStage
	n, err := l.e.sink.Check(w)
	if err != nil {
		return err
	}
	t.cur.Writes = append(t.cur.Writes, w)
	t.cur.bytes += n
	return nil
}

var outputStage = &stage{kind: StageOutput, name: "output"}

// failed applies the policy to a record that failed: try again, then stop, skip
// or dead-letter. Nil means that the record is done, or that the lane is closing.
func (l *lane[W]) failed(r *Record, err error) error {
	var order *orderError
	if errors.As(err, &order) {
		return err
	}
	t := l.tenure
	attempts := 1
	p := l.policy()
	for pauses := p.pauses(); attempts <= p.Retries; attempts++ {
		if goOn, err := l.pauseSaving(pauses.NextBackOff()); err != nil || !goOn {
			return err
		}
		if err = l.retry(r); err == nil {
			t.last = r.Offset
			return nil
		}
		p = l.policy() // it may fail elsewhere now
	}
	if l.ctx.Err() != nil {
		return errGone // a handler that was cancelled has not failed
	}
	re := &RecordError{l.e.pipeline.name, l.tp, r.Offset, t.call.stage.name, attempts, err}
	l.giveUpOn(r, re, p.Action)
	return nil
}

// retry is attempt with a panic turned into an error.
func (l *lane[W]) retry(r *Record) (err error) {
	defer l.recovered(&err)
	return l.attempt(r)
}

// recovered turns a panic into an error of the record.
func (l *lane[W]) recovered(err *error) {
	if v := recover(); v != nil {
		l.rollback()
		*err = newPanic(v)
	}
}

// policy returns what the stage that failed last is to be treated with.
func (l *lane[W]) policy() FailurePolicy {
	st := l.tenure.call.stage
	if st.policy != nil {
		return *st.policy
	}
	return l.e.pipeline.policies[st.kind]
}

func (l *lane[W]) giveUpOn(r *Record, re *RecordError, a Action) {
	t := l.tenure
	switch a {
	case ActionSkip:
		t.counters.Skipped++
	case ActionDeadLetter:
		t.counters.DeadLettered++
		l.deadLetter(r, re)
	default:
		// What was processed before it is saved first.
		t.final = re
		return
	}
	l.log.Warn("record given up", "offset", r.Offset, "stage", re.Stage, "attempts", re.Attempts, "action", a.String(), "error", re.Err)
	notify(l.e.cfg.Hooks.Failed, FailedEvent{re, a})
	t.last = r.Offset
	l.pass(r)
}

func (l *lane[W]) deadLetter(r *Record, re *RecordError) {
	d := DeadLetter{
		Offset: r.Offset, Stage: re.Stage, Error: re.Err.Error(), Attempts: re.Attempts,
		FailedAt: time.Now(), Timestamp: r.Timestamp, Key: r.Key, Value: r.Value, Headers: r.Headers,
	}
	c := &l.tenure.cur
	c.DeadLetters = append(c.DeadLetters, d)
	c.bytes += d.size()
}

// pauseSaving is pause between two attempts at a record. What was processed
// before it is saved meanwhile: the record may be tried for hours.
func (l *lane[W]) pauseSaving(d time.Duration) (goOn bool, err error) {
	t := l.tenure
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		if t.sealed == nil && t.saving == nil && t.cur.records > 0 && !l.positionOnly() {
			if err := l.seal(); err != nil {
				return false, err
			}
		}
		l.launch()
		select {
		case r := <-t.results:
			if err := l.landed(r); err != nil {
				return false, err
			}
		case <-timer.C:
			return true, nil
		case <-l.soft.Done():
			return false, nil
		}
	}
}

// pause waits, and returns false if the lane is to close instead.
func (l *lane[W]) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.soft.Done():
		return false
	}
}
