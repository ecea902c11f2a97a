package framework

// What things count for in the byte limit of a batch: their own bytes, and a
// little for what surrounds them in any encoding.
const entryOverhead = 16

func (e *StateEntry) size() int {
	return entryOverhead + len(e.Operator) + len(e.Key) + len(e.Value)
}

func (d *DeadLetter) size() int {
	n := 4*entryOverhead + len(d.Stage) + len(d.Error) + len(d.Key) + len(d.Value)
	for i := range d.Headers {
		n += len(d.Headers[i].Key) + len(d.Headers[i].Value)
	}
	return n
}
