package framework

import (
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// recovery limits how long and how often a lane tries to get going again.
type recovery struct {
	since  time.Time                   // of the first error without a save since; zero: none
	first  error                       // that error
	pauses *backoff.ExponentialBackOff // after errors that may pass
	duel   *backoff.ExponentialBackOff // after losing the claim to another owner
	fences int
}

func newRecovery() recovery {
	return recovery{
		pauses: doubling(50*time.Millisecond, 5*time.Second, 0.3),
		// Two owners that both believe in their assignment must not steal from
		// each other in step, so these are long and spread out.
		duel: doubling(time.Second, 30*time.Second, 0.5),
	}
}

// postpone takes time off that was not spent on recovering.
func (r *recovery) postpone(d time.Duration) {
	if !r.since.IsZero() {
		r.since = r.since.Add(d)
	}
}

// exhausted is the error to fail with. What began it may matter more than what the
// last try met, such as a save whose outcome is still unknown.
func (r *recovery) exhausted(last error) error {
	if last.Error() == r.first.Error() {
		return last
	}
	return fmt.Errorf("%w (it began with: %w)", last, r.first)
}

// reset is called after each save: the lane works.
func (r *recovery) reset() {
	if r.since.IsZero() {
		return
	}
	r.since, r.first, r.fences = time.Time{}, nil, 0
	r.pauses.Reset()
	r.duel.Reset()
}

// again decides what follows the end of a tenure: nil to claim again, errGone to
// end without a fault, another error to fail with.
func (l *lane[W]) again(cause error) error {
	switch {
	case l.ctx.Err() != nil, errors.Is(cause, errGone):
		return errGone
	case l.limits.shrunk:
		return l.smaller(cause)
	case l.final(cause):
		return cause
	case errors.Is(cause, ErrNotOwner):
		return errGone
	case l.soft.Err() != nil:
		return l.whileDraining(cause)
	}
	wait, err := l.backOff(cause)
	if err != nil {
		return err
	}
	l.log.Warn("claiming the partition again", "stage", l.tenure.stage, "error", cause, "wait", wait)
	l.status.phase(PhaseRecovering, cause)
	notify(l.e.cfg.Hooks.Recovering, RecoveringEvent{l.e.pipeline.name, l.tp, cause, wait})
	if !l.pause(wait) {
		return errGone
	}
	return nil
}

// smaller begins anew with smaller batches, at once: nothing needs to be waited
// for. A lane that drains leaves it to the next owner.
func (l *lane[W]) smaller(cause error) error {
	l.limits.shrunk = false
	l.log.Warn("the batch could not be saved as a whole; smaller ones will show which record is at fault", "records", l.limits.records, "error", cause)
	if l.soft.Err() != nil {
		return errGone
	}
	return nil
}

// whileDraining: there is no time to claim again. What could not be claimed or
// was fenced is somebody else's; a save that failed is worth an error.
func (l *lane[W]) whileDraining(cause error) error {
	if (l.tenure.stage == "save" || l.tenure.stage == "reduce") && !errors.Is(cause, ErrFenced) {
		return cause
	}
	return errGone
}

// final reports whether claiming again could not help.
func (l *lane[W]) final(err error) bool {
	for _, target := range []error{ErrRefused, ErrCorrupt, ErrConfig, ErrClosed, ErrOrder} {
		if errors.Is(err, target) {
			return true
		}
	}
	var record *RecordError
	var lane *LaneError
	var position *PositionError
	switch {
	case errors.As(err, &record), errors.As(err, &lane):
		return true
	case errors.As(err, &position):
		return !errors.Is(err, ErrBelowLogStart) || l.e.cfg.BelowLogStart == PositionStop
	}
	return false
}

// backOff returns how long to wait before claiming again, or the error to fail
// with when the limit of tries or time has passed.
func (l *lane[W]) backOff(cause error) (time.Duration, error) {
	r := &l.recovery
	if r.since.IsZero() {
		r.since, r.first = time.Now(), cause
	}
	if errors.Is(cause, ErrFenced) {
		if r.fences++; r.fences > l.e.cfg.FenceTries {
			return 0, r.exhausted(cause)
		}
		return l.duel()
	}
	if time.Since(r.since) > l.e.cfg.RecoverWithin {
		return 0, r.exhausted(cause)
	}
	return r.pauses.NextBackOff(), nil
}

// duel asks the source whether the partition is still ours before claiming it
// back from another owner.
func (l *lane[W]) duel() (time.Duration, error) {
	err := l.part.Confirm(l.soft)
	if errors.Is(err, ErrNotOwner) || l.soft.Err() != nil {
		return 0, errGone
	}
	if err != nil {
		l.log.Warn("the source could not confirm that the partition is ours", "error", err)
	}
	return l.recovery.duel.NextBackOff(), nil
}

// limits shrinks batches after one that the sink would never save, or that
// could not be reduced, until it fits or the one record at fault is found; then
// it lets them grow again.
type limits struct {
	most, records int
	ceiling       int  // of records; near what failed last
	shrunk        bool // the tenure ended to begin with smaller batches
	// culprit is the offset of a record that alone cannot be saved, for cause.
	culprit int64
	cause   error
}

func newLimits(most int) limits {
	return limits{most: most, records: most, ceiling: most, culprit: -1}
}

// halve is told how many records a batch had that failed. It returns false if it
// cannot be smaller: with a limit of one, a batch ends at the first record that
// adds anything to it.
func (m *limits) halve(records int) bool {
	n := min(m.records, records)
	if n <= 1 {
		return false
	}
	m.records, m.ceiling, m.shrunk = n/2, max(1, n*3/4), true
	return true
}

// blame is halve, and at its end knows the record at fault: the last one. It
// returns false if that one was known already, so that not even its dead letter
// can be saved.
func (m *limits) blame(records int, last int64, cause error) bool {
	if m.halve(records) {
		return true
	}
	if m.culprit == last {
		return false
	}
	m.culprit, m.cause, m.shrunk = last, cause, true
	return true
}

func (m *limits) succeeded() {
	m.records = min(m.ceiling, 2*m.records)
	m.ceiling = min(m.most, m.ceiling+max(1, m.ceiling/64))
}
