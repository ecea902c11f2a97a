package cassandra

import (
	"sync/atomic"
	"time"
)

// How long a statement is repeated before the log tells of it, and how often it
// does then, for all statements of a sink together.
const (
	tellAfter = 5 * time.Second
	tellEvery = 30 * time.Second
)

// teller remembers when the log last told of a wait. It may be used concurrently.
type teller struct{ last atomic.Int64 }

// due reports whether a wait is to be told of now, and notes that it is.
func (t *teller) due(now, began time.Time) bool {
	last := t.last.Load()
	return now.Sub(began) >= tellAfter && now.UnixNano()-last >= int64(tellEvery) && t.last.CompareAndSwap(last, now.UnixNano())
}

// waiting is called with each failure of what is repeated, and keeps a wait from
// being silent.
func (e *engine) waiting(began time.Time, what string, err error) {
	if now := e.clock.now(); e.teller.due(now, began) {
		e.log.Warn("cassandra: a statement fails and is repeated", "statement", what, "waited", now.Sub(began).Round(time.Second), "error", err)
	}
}
