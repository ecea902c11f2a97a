package framework

import "sync"

// inbox holds the records that wait for a lane, and counts what the lane holds
// in memory altogether. The source fills it, the lane's goroutine empties it.
// It pauses the partition while the lane holds more than its limit, which is
// all the back-pressure there is: nothing ever blocks the source.
type inbox struct {
	part  Partition
	limit func() int // bytes, of this lane, now
	wake  func()

	mu     sync.Mutex
	open   bool
	paused bool
	chunks []chunk
	used   int // bytes: waiting records, and batches on their way
	failed error
}

// chunk is what one call of Lanes.Records delivered.
type chunk struct {
	records []Record
	bytes   int
	behind  bool // much more is in the log
}

// backlog is how far behind the log's end a lane is when it is not worth to
// save at once what has come so far. Offsets are no count of records, so a few
// of them (markers of transactions, say) mean nothing.
const backlog = 1000

func newChunk(records []Record, logEnd int64) chunk {
	c := chunk{records: records}
	c.behind = logEnd-records[len(records)-1].Offset > backlog
	for i := range records {
		c.bytes += records[i].size()
	}
	return c
}

// put adds a chunk. A shut inbox drops it: it was read before the lane's claim,
// or after its end, and will be read again by whoever owns the partition.
func (q *inbox) put(c chunk) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.open {
		return
	}
	q.chunks = append(q.chunks, c)
	q.use(c.bytes)
	q.wake()
}

// take returns the oldest chunk, or an empty one. Its bytes stay counted until
// they are given back.
func (q *inbox) take() chunk {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.chunks) == 0 {
		return chunk{}
	}
	c := q.chunks[0]
	q.chunks[0] = chunk{}
	q.chunks = q.chunks[1:]
	return c
}

// empty reports whether no records wait, and flowing whether the partition is
// not paused, so that more can come.
func (q *inbox) empty() (empty, flowing bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.chunks) == 0, !q.paused
}

// hold adds to what the lane holds, or gives back when bytes is negative.
func (q *inbox) hold(bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.use(bytes)
}

// use counts bytes and pauses or resumes the partition. It resumes at half the
// limit, so that pausing stays rare. The caller holds the lock, which keeps
// Pause and Resume in order.
func (q *inbox) use(bytes int) {
	q.used += bytes
	switch limit := q.limit(); {
	case !q.open:
	case !q.paused && q.used >= limit:
		q.paused = true
		q.part.Pause()
	case q.paused && q.used < (limit+1)/2:
		q.paused = false
		q.part.Resume()
	}
}

// shut drops everything and pauses the partition: nothing is accepted until
// reopen.
func (q *inbox) shut() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open, q.paused, q.chunks, q.used, q.failed = false, true, nil, 0, nil
	q.part.Pause()
}

// reopen accepts records again and lets them flow. The partition must have been
// started: what arrives from now on was read from there.
func (q *inbox) reopen() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open, q.paused = true, false
	q.part.Resume()
}

// fail remembers that the source cannot read on.
func (q *inbox) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed == nil {
		q.failed = err
	}
	q.wake()
}

func (q *inbox) failure() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failed
}
