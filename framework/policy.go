package framework

import (
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// StageKind is where in a pipeline a record can fail.
type StageKind uint8

// The kinds of stage.
const (
	StageDecode  StageKind = iota // the codec refuses the record's value
	StageHandler                  // an operator returns an error or panics
	StageOutput                   // the sink could never save what was returned
)

// Action is what happens to a record that failed for good.
type Action uint8

// The actions.
const (
	// ActionStop stops the lane with a *RecordError; the position stays before
	// the record. It is the default.
	ActionStop Action = iota
	// ActionSkip counts the record as skipped, logs it, and goes on.
	ActionSkip
	// ActionDeadLetter saves the record whole, in the same commit as the
	// position that passes it, and goes on.
	ActionDeadLetter
)

// String returns the action in words.
func (a Action) String() string {
	if a > ActionDeadLetter {
		return "invalid"
	}
	return [...]string{"stop", "skip", "dead-letter"}[a]
}

// FailurePolicy says how often a failing record is tried again, and what
// happens then. The zero value stops at the first failure. A panic is a failure
// like an error.
type FailurePolicy struct {
	Action Action
	// Retries is how often the record is tried again, from decoding on. Defaults
	// to 0.
	Retries int
	// Pause is the wait before the first retry; it doubles with each. Defaults
	// to 100 ms.
	Pause time.Duration
	// MaxPause bounds the doubled wait. Defaults to 10 s.
	MaxPause time.Duration
}

const (
	defaultPause    = 100 * time.Millisecond
	defaultMaxPause = 10 * time.Second
)

func (p FailurePolicy) validate() error {
	switch {
	case p.Action > ActionDeadLetter:
		return fmt.Errorf("failure policy: unknown action %d", p.Action)
	case p.Retries < 0 || p.Pause < 0 || p.MaxPause < 0:
		return fmt.Errorf("failure policy: Retries, Pause and MaxPause must not be negative")
	}
	return nil
}

// pauses returns the waits between attempts: Pause, doubled each time. There is
// no jitter, since a pause of one record herds with nobody, and users count on
// the shortest pause.
func (p FailurePolicy) pauses() *backoff.ExponentialBackOff {
	return doubling(orDefault(p.Pause, defaultPause), orDefault(p.MaxPause, defaultMaxPause), 0)
}

func doubling(first, most time.Duration, jitter float64) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = first, max(first, most)
	b.Multiplier, b.RandomizationFactor = 2, jitter
	b.Reset()
	return b
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}
