package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

type deafLanes struct{ failed []error }

func (*deafLanes) Assigned([]framework.Partition)                         {}
func (*deafLanes) Records(framework.Partition, []framework.Record, int64) {}
func (*deafLanes) Revoked(context.Context, []framework.Partition)         {}
func (*deafLanes) Lost([]framework.Partition)                             {}
func (l *deafLanes) Failed(_ framework.Partition, err error)              { l.failed = append(l.failed, err) }

// unconnected returns a partition that was started at offset 5, read to 9, and
// is suspended because of an error of reading.
func unconnected(t *testing.T) (*run, *partition, *deafLanes) {
	t.Helper()
	cfg := Config{Brokers: []string{"127.0.0.1:1"}, Topics: []string{"in"}, Group: "g"}.WithDefaults()
	lanes := &deafLanes{}
	r := &run{cfg: cfg, lanes: lanes, log: newLogger(cfg.Logger), parts: map[offsetstore.TopicPartition]*partition{},
		topicIDs: map[string]offsetstore.TopicID{}, changed: make(chan struct{}), mirrors: make(chan struct{}, 1), joined: make(chan struct{}),
		committing: make(turn, 1), wake: func() {}, ended: true} // ended: suspend starts no goroutine
	var err error
	if r.cl, err = r.newClient(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.cl.Close)
	p := newPartition(r, offsetstore.TopicPartition{Topic: "in"})
	r.parts[p.tp] = p
	_ = p.moved(&seek{p: p, to: offsetstore.At(5)})
	p.Resume()
	p.mu.Lock()
	p.next = offsetstore.At(9)
	p.suspend(errors.New("out of range"))
	p.mu.Unlock()
	return r, p, lanes
}

// The diagnosis of an old error comes to its end after the lane has started the
// partition anew: it must neither stop the partition nor be lost.
func TestAnOldDiagnosisDoesNotStopANewStart(t *testing.T) {
	_, p, lanes := unconnected(t)
	p.halt() // Start, called by a lane that claimed again …
	_ = p.moved(&seek{p: p, to: offsetstore.At(8)})
	p.failed(errors.New("old news"), 1) // … while the diagnosis of the error was under way
	p.Resume()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.fetching && len(lanes.failed) == 0 {
		t.Error("the partition is not fetched any more, and the lane was not told: it waits for ever")
	}
}

// The same, where the partition has been suspended again since its new start: the
// lane is failed by an error about a position it has left.
func TestAnOldDiagnosisDoesNotFailANewStart(t *testing.T) {
	_, p, lanes := unconnected(t)
	p.halt()
	_ = p.moved(&seek{p: p, to: offsetstore.At(8)})
	p.mu.Lock()
	p.suspend(errors.New("a passing error"))
	p.mu.Unlock()
	p.failed(errors.New("old news"), 1)
	if len(lanes.failed) > 0 {
		t.Errorf("the lane was told %v", lanes.failed)
	}
}

// A seek of our own that was decided before the lane's Start, and queued after it.
func TestAnOldSeekDoesNotUndoANewStart(t *testing.T) {
	r, p, _ := unconnected(t)
	own := &seek{p: p, to: offsetstore.At(9), own: new(int), done: make(chan error, 1)} // resumeReading has checked that it is current …
	*own.own = 1
	p.halt() // … and is preempted before it queues
	start := &seek{p: p, to: offsetstore.At(5), done: make(chan error, 1)}
	r.seekAll([]*seek{start})
	r.seekAll([]*seek{own})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next.Offset != 5 {
		t.Errorf("started at 5, but reading goes on at %d: the records between are never delivered, and the gap is legal", p.next.Offset)
	}
}

// Errors that have passed do not add up over days to a partition that fails.
func TestErrorsOfReadingDoNotAddUpOverTime(t *testing.T) {
	_, p, _ := unconnected(t)
	for range maxStrikes + 3 {
		_ = p.moved(&seek{p: p, to: offsetstore.At(9)}) // its position was found good
		p.mu.Lock()
		p.readSince = p.readSince.Add(-2 * calm)
		p.suspend(errors.New("bad checksum"))
		strikes := p.strikes
		p.mu.Unlock()
		if strikes != 1 {
			t.Fatalf("an error after a calm time counts as number %d", strikes)
		}
	}
}

func TestAnAnswerWithoutRecordsEndsARowOfErrors(t *testing.T) {
	for _, c := range []struct {
		name      string
		end       int64
		err       error
		suspended bool
		want      int
	}{
		{name: "read to the end", end: 9, want: 0},
		{name: "no room for the next record", end: 10, want: 1},
		{name: "nothing known of the end", end: -1, want: 1},
		{name: "an error", end: 9, err: kerr.NotLeaderForPartition, want: 2},
		{name: "an answer from before the error", end: 9, suspended: true, want: 1},
	} {
		r, p, _ := unconnected(t)
		p.mu.Lock()
		p.suspended = c.suspended
		p.mu.Unlock()
		r.dispatch(answerOf(p, c.end, c.err), 1)
		p.mu.Lock()
		if p.strikes != c.want {
			t.Errorf("%s: %d errors in a row, want %d", c.name, p.strikes, c.want)
		}
		p.mu.Unlock()
	}
}

// answerOf is an answer without records.
func answerOf(p *partition, end int64, err error) kgo.Fetches {
	return kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: p.tp.Topic, Partitions: []kgo.FetchPartition{{
		Partition: p.tp.Partition, LastStableOffset: end, HighWatermark: end, Err: err,
	}}}}}}
}

// Time that ran out is dropped only where it is the poll's own.
func TestTimeThatRanOutIsTheFaultOfWhatItIsReportedFor(t *testing.T) {
	for _, cause := range []error{context.DeadlineExceeded, context.Canceled} {
		r, p, _ := unconnected(t)
		_ = p.moved(&seek{p: p, to: offsetstore.At(9)})
		r.dispatch(kgo.NewErrFetch(cause), 1)
		if p.suspended {
			t.Errorf("%v of a poll suspended a partition", cause)
		}
		r.readError(p.tp.Topic, p.tp.Partition, fmt.Errorf("unable to load the offset: %w", cause))
		if !p.suspended {
			t.Errorf("%v of a partition was dropped: the client has given up on it, and nobody looks", cause)
		}
		if undecodable(cause) {
			t.Errorf("%v was taken for bytes that cannot be decoded", cause)
		}
	}
}

func TestTheEndOfASessionByTimeIsReported(t *testing.T) {
	r, _, _ := unconnected(t)
	var log bytes.Buffer
	r.log = newLogger(slog.New(slog.NewTextHandler(&log, nil)))
	r.readError("", 0, &kgo.ErrGroupSession{Err: context.DeadlineExceeded})
	if !strings.Contains(log.String(), "session with the consumer group ended") {
		t.Errorf("the log says %q", log.String())
	}
}
