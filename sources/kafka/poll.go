package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
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
		if r.fetch.adapt() {
			r.cl.UpdateFetchMaxBytes(r.fetch.of(r.cfg.FetchMaxBytes), r.fetch.of(r.cfg.FetchMaxPartitionBytes))
		}
	}
}

// beginPoll carries out the seeks that are due and returns the context of the
// next poll. It ends when something else is to be done: a new seek, one that
// becomes due, or a failure of the run.
func (r *run) beginPoll(ctx context.Context) (context.Context, func(), error) {
	r.mu.Lock()
	due, wait := r.dueSeeks()
	pollCtx, cancel := context.WithTimeout(ctx, wait)
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
			r.readEmpty(f)
			return
		}
		records += len(f.Records)
		if p := r.partition(f.Topic, f.Partition); p != nil {
			size += p.hand(f.Records, logEnd(f))
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
func (p *partition) hand(recs []*kgo.Record, logEnd int64) int {
	p.deliver.Lock()
	defer p.deliver.Unlock()
	if !p.admit(recs) {
		return 0
	}
	records, size := convert(recs)
	if logEnd >= 0 {
		// The broker notes the end before it reads, and may read what came since.
		logEnd = max(logEnd, recs[len(recs)-1].Offset+1)
	}
	p.run.lanes.Records(p, records, logEnd)
	return size
}

// readEmpty forgets the errors of a partition that was read to its end without
// another one. An answer without records that stands before the end says nothing:
// it may only have had no room for them.
func (r *run) readEmpty(f kgo.FetchTopicPartition) {
	p := r.partition(f.Topic, f.Partition)
	if p == nil || f.Err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if end := logEnd(f); end >= 0 && end <= p.next.Offset && !p.suspended {
		p.strikes = 0
	}
}

// logEnd is how far a reader of committed records can read, -1 if the broker
// did not say.
func logEnd(f kgo.FetchTopicPartition) int64 {
	if f.LastStableOffset >= 0 {
		return f.LastStableOffset
	}
	return f.HighWatermark
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
