package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// A hand-over to a lane is kept near handOverBytes by asking the client for no
// more than that many bytes' worth of records, as the last ones were.
const (
	handOverBytes   = 1 << 20
	minPollRecords  = 16
	maxPollRecords  = 8192
	firstPollRecord = 1024
)

// poll hands records to the lanes until ctx ends or the run fails. Between two
// polls, and only there, it moves positions: nothing that was polled before a
// seek is delivered after it.
func (r *run) poll(ctx context.Context) error {
	limit := firstPollRecord
	for {
		pollCtx, done, err := r.beginPoll(ctx)
		if err != nil || ctx.Err() != nil {
			done()
			return err
		}
		fetches := r.cl.PollRecords(pollCtx, limit)
		done()
		limit = r.dispatch(fetches, limit)
	}
}

// seekGap is the least time between two rounds of seeks. Each round makes the
// client fetch anew, of all partitions; if hundreds of lanes start one after the
// other, the running ones must not starve.
const seekGap = 50 * time.Millisecond

// beginPoll carries out the seeks that are due and returns the context of the
// next poll. It ends when something else is to be done: a new seek, one that
// becomes due, or a failure of the run.
func (r *run) beginPoll(ctx context.Context) (context.Context, func(), error) {
	r.mu.Lock()
	var due []*seek
	pollCtx, cancel := context.WithCancel(ctx)
	if wait := time.Until(r.lastSeek.Add(seekGap)); len(r.seeks) > 0 && wait > 0 {
		pollCtx, cancel = context.WithTimeout(ctx, wait)
	} else if len(r.seeks) > 0 {
		due, r.seeks, r.lastSeek = r.seeks, nil, time.Now()
	}
	r.wake = cancel
	err := r.fatal
	r.mu.Unlock()
	r.seekAll(due)
	return pollCtx, cancel, err
}

// dispatch delivers what was polled and returns how many records to ask for
// next. Errors come first: the client reports a loss of data beside records that
// it read after moving on, and those must not be delivered.
func (r *run) dispatch(fetches kgo.Fetches, limit int) int {
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		if f.Err != nil && len(f.Records) == 0 {
			r.readError(f.Topic, f.Partition, f.Err)
		}
	})
	var records, size int
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		if len(f.Records) == 0 {
			return
		}
		records += len(f.Records)
		if p := r.partition(f.Topic, f.Partition); p != nil {
			size += p.hand(f.Records)
		}
		if f.Err != nil {
			r.readError(f.Topic, f.Partition, f.Err)
		}
	})
	if records == 0 || size == 0 {
		return limit
	}
	return min(max(handOverBytes*records/size, minPollRecords), maxPollRecords)
}

// hand delivers records to the lane unless the partition is not started (any
// more), and returns their size in bytes.
func (p *partition) hand(recs []*kgo.Record) int {
	p.deliver.Lock()
	defer p.deliver.Unlock()
	if !p.admit(recs) {
		return 0
	}
	records, size := convert(recs)
	p.run.lanes.Records(p, records)
	return size
}

// admit checks that records may be delivered and moves the position past them.
func (p *partition) admit(recs []*kgo.Record) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead || p.revoking || !p.started || p.suspended {
		return false
	}
	last := recs[len(recs)-1]
	if recs[0].Offset < p.next.Offset {
		// The client has moved back by itself. Whatever made it do so shows when
		// the position is checked again.
		p.suspend(errMovedBack)
		return false
	}
	p.next.Offset, p.next.LeaderEpoch = last.Offset+1, last.LeaderEpoch
	p.strikes = 0
	return true
}

// convert turns the client's records into the framework's. Keys, values and
// header values are copied into one slice: the client's point into the whole
// answer of a broker, which a slow lane would otherwise keep alive for the sake
// of a few records. There are three allocations at most, however many records.
func convert(recs []*kgo.Record) ([]framework.Record, int) {
	var size, headers int
	for _, r := range recs {
		size += len(r.Key) + len(r.Value)
		headers += len(r.Headers)
		for i := range r.Headers {
			size += len(r.Headers[i].Value)
		}
	}
	out := make([]framework.Record, len(recs))
	data := slab(make([]byte, 0, size))
	for i, r := range recs {
		out[i] = framework.Record{
			Offset:      r.Offset,
			LeaderEpoch: r.LeaderEpoch,
			Timestamp:   r.Timestamp.UTC(),
			Key:         data.copy(r.Key),
			Value:       data.copy(r.Value),
		}
	}
	if headers > 0 {
		convertHeaders(out, recs, headers, &data)
	}
	return out, size + 64*len(recs)
}

// slab is memory that was allocated for a known number of bytes.
type slab []byte

// copy returns a copy of b within the slab. Nil stays nil: it means "none".
func (s *slab) copy(b []byte) []byte {
	if b == nil {
		return nil
	}
	from := len(*s)
	*s = append(*s, b...)
	return (*s)[from:len(*s):len(*s)]
}

func convertHeaders(out []framework.Record, recs []*kgo.Record, total int, data *slab) {
	all := make([]framework.Header, 0, total)
	for i, r := range recs {
		if len(r.Headers) == 0 {
			continue
		}
		from := len(all)
		for _, h := range r.Headers {
			all = append(all, framework.Header{Key: h.Key, Value: data.copy(h.Value)})
		}
		out[i].Headers = all[from:len(all):len(all)]
	}
}

// seek is a position to be set by the polling goroutine.
type seek struct {
	p    *partition
	to   offsetstore.Position
	keep bool // the lane's pause stays as it is (a seek of our own)
	done chan error
}

// request queues s and interrupts the poll. It fails if nobody polls any more.
func (r *run) request(s *seek) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leaving {
		return s.p.notOwner()
	}
	r.seeks = append(r.seeks, s)
	r.wake()
	return nil
}

// failSeeks answers the seeks that nobody will carry out. The caller holds mu.
func (r *run) failSeeks() {
	for _, s := range r.seeks {
		s.done <- s.p.notOwner()
	}
	r.seeks = nil
}

// seekAll sets the positions in one step, since each step makes the client drop
// what it has buffered, of all partitions. The client ignores a seek to where it
// has read to; should it have moved back from there, admit notices.
func (r *run) seekAll(seeks []*seek) {
	if len(seeks) == 0 {
		return
	}
	to := make(map[string]map[int32]kgo.EpochOffset)
	for _, s := range seeks {
		s.p.stop()
		if to[s.p.tp.Topic] == nil {
			to[s.p.tp.Topic] = make(map[int32]kgo.EpochOffset)
		}
		to[s.p.tp.Topic][s.p.tp.Partition] = kgo.EpochOffset{Epoch: s.to.LeaderEpoch, Offset: s.to.Offset}
	}
	r.cl.SetOffsets(to)
	for _, s := range seeks {
		s.done <- s.p.moved(s)
	}
}

// stop ends delivery until the next position is set.
func (p *partition) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.started = false
	p.apply()
}

// moved notes that the client stands at s.to.
func (p *partition) moved(s *seek) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return p.notOwner()
	}
	p.seeks++
	p.next = s.to
	p.started, p.suspended = true, false
	if !s.keep {
		p.paused, p.from, p.announce = true, s.to.Offset, true
		if !p.mirrored {
			p.mirror = s.to
		}
		p.logStart()
	}
	p.apply()
	return nil
}

var errMovedBack = errors.New("the client delivered records from before the position")

// maxStrikes is how many times a record that cannot be decoded is fetched again
// before the partition fails.
const maxStrikes = 4

// retryDelay grows from 100 ms to 5 s.
func retryDelay(strikes int) time.Duration {
	return min(100*time.Millisecond<<min(strikes, 10), 5*time.Second)
}
