package memory

import (
	"bytes"
	"maps"
	"slices"

	"github.com/lockstep-stream/lockstep/framework"
)

// The treaty lets a sink keep nothing it was given, and callers may change what
// they were given back: so bytes are copied both ways. bytes.Clone keeps nil
// apart from empty.

func cloneProgress(p framework.Progress) framework.Progress {
	p.Lane = bytes.Clone(p.Lane)
	return p
}

func cloneTopicStart(t framework.TopicStart) framework.TopicStart {
	t.Starts = maps.Clone(t.Starts)
	return t
}

func cloneDeadLetters(ds []framework.DeadLetter) []framework.DeadLetter {
	ds = slices.Clone(ds)
	for i := range ds {
		d := &ds[i]
		d.Key, d.Value, d.Headers = bytes.Clone(d.Key), bytes.Clone(d.Value), slices.Clone(d.Headers)
		for j := range d.Headers {
			d.Headers[j].Value = bytes.Clone(d.Headers[j].Value)
		}
	}
	return ds
}
