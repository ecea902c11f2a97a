package customsink

import (
	"encoding/json"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
)

// entry is one file of a log, as JSON. A claim is an entry that changes nothing.
//
// JSON keeps nil and empty bytes apart, but replaces text that is no UTF-8, and
// knows no year 10,000. So what may hold any text or any time has a type of its
// own here, whose fields hide those of the framework's.
type entry struct {
	To          framework.Progress
	Writes      []Write      `json:",omitempty"`
	State       []stateEntry `json:",omitempty"`
	DeadLetters []deadLetter `json:",omitempty"`
}

type stateEntry struct {
	framework.StateEntry
	Operator []byte
}

type deadLetter struct {
	framework.DeadLetter
	FailedAt, Timestamp int64 // milliseconds
	Headers             []header
}

type header struct{ Key, Value []byte }

func encode(b *framework.Batch[Write]) ([]byte, error) {
	e := entry{To: b.To, Writes: b.Writes}
	for _, s := range b.State {
		e.State = append(e.State, stateEntry{s, []byte(s.Operator)})
	}
	for _, d := range b.DeadLetters {
		stored := deadLetter{DeadLetter: d, FailedAt: d.FailedAt.UnixMilli(), Timestamp: d.Timestamp.UnixMilli()}
		for _, h := range d.Headers {
			stored.Headers = append(stored.Headers, header{[]byte(h.Key), h.Value})
		}
		e.DeadLetters = append(e.DeadLetters, stored)
	}
	return json.Marshal(e)
}

func decode(data []byte, visit func(entry)) error {
	var e entry
	if err := json.Unmarshal(data, &e); err != nil {
		return err
	}
	visit(e)
	return nil
}

// whole returns the dead letter as it was given.
func (d deadLetter) whole() framework.DeadLetter {
	w := d.DeadLetter
	w.FailedAt, w.Timestamp = time.UnixMilli(d.FailedAt), time.UnixMilli(d.Timestamp)
	for _, h := range d.Headers {
		w.Headers = append(w.Headers, framework.Header{Key: string(h.Key), Value: h.Value})
	}
	return w
}
