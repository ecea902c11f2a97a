package watermill

import (
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// feed reads a partition with a consumer of our own, wherever the lane starts it,
// and hands its records to the subscriber by out, one at a time, until ctx ends.
func (p *partition) feed(ctx context.Context, out chan<- *sarama.ConsumerMessage) {
	f := &feed{p: p, out: out}
	defer f.close()
	tick := time.NewTicker(p.r.cfg.CheckInterval)
	defer tick.Stop()
	for {
		in, errs, to := f.channels()
		select {
		case <-ctx.Done():
			return
		case s := <-p.starts:
			s.done <- f.start(s)
		case <-p.changed:
		case k, ok := <-in:
			f.took(k, ok)
		case to <- f.held:
			f.held = nil
		case err, ok := <-errs:
			f.readError(err, ok)
		case v := <-f.checked:
			f.checked = nil
			f.judge(v)
		case <-f.again:
			f.look()
		case <-tick.C:
			f.look()
		}
	}
}

// feed is the state of that goroutine.
type feed struct {
	p       *partition
	out     chan<- *sarama.ConsumerMessage
	own     sarama.PartitionConsumer     // nil: none
	errs    <-chan *sarama.ConsumerError // of own, nil when it has ended
	at      offsetstore.Position         // where own was opened
	read    bool                         // own has brought a record
	held    *sarama.ConsumerMessage      // read and not handed over
	checked <-chan verdict               // what the look that is under way finds, nil: none is
	again   <-chan time.Time             // when to look at the log next
	strikes int                          // looks in a row that brought nothing
	missing time.Time                    // since when the topic does not exist
}

// channels returns what the feed waits for. What is not due is nil.
func (f *feed) channels() (in <-chan *sarama.ConsumerMessage, errs <-chan *sarama.ConsumerError, to chan<- *sarama.ConsumerMessage) {
	if f.own == nil {
		return nil, nil, nil
	}
	switch {
	case !f.p.flowing():
		f.own.Pause()
	case f.held == nil:
		f.own.Resume()
		in = f.own.Messages()
	case f.p.offer(f.held, f.own.HighWaterMarkOffset()):
		to = f.out
	}
	return in, f.errs, to
}

// start has a consumer at a position. Opening one takes sarama a tenth of a
// second and more, so one that stands there and has read nothing is kept.
func (f *feed) start(s *start) error {
	if f.own == nil || f.read || f.at != s.at || len(f.own.Messages()) > 0 {
		if err := f.open(s.at); err != nil {
			return err
		}
	}
	f.missing, f.checked, f.again, f.strikes = time.Time{}, nil, nil, 0
	f.p.moved(s.at)
	return nil
}

// open opens a consumer in place of the one there is.
func (f *feed) open(at offsetstore.Position) error {
	f.close()
	own, err := f.p.r.consumer.ConsumePartition(f.p.tp.Topic, f.p.tp.Partition, at.Offset)
	if err != nil {
		return err
	}
	own.Pause() // until the lane resumes it
	f.own, f.errs, f.at, f.read = own, own.Errors(), at, false
	return nil
}

func (f *feed) close() {
	if f.own != nil {
		_ = f.own.Close() // errors of reading what is not wanted any more
	}
	f.own, f.errs, f.held = nil, nil, nil
}

// took takes a record. A consumer that has ended was out of the log's range.
func (f *feed) took(k *sarama.ConsumerMessage, ok bool) {
	if !ok {
		f.close()
		f.look()
		return
	}
	f.held, f.read, f.strikes = k, true, 0
}

// readError notes what sarama met while reading, and goes on with by itself
// unless the log does not have the position.
func (f *feed) readError(err *sarama.ConsumerError, ok bool) {
	switch {
	case !ok:
		f.errs = nil
	case hopeless(err) != "":
		f.close()
		f.p.failed(explain(err))
	default:
		f.p.r.log.Warn("reading a partition failed; trying again", "topic", f.p.tp.Topic, "partition", f.p.tp.Partition, "error", err.Err)
	}
}

// verdict is what the log says of a position.
type verdict struct {
	of  offsetstore.Position
	err error
}

// look has the position compared with the log, while reading goes on: reading by
// name alone does not tell a topic from one that was made again, and waits for
// ever for one that is gone.
func (f *feed) look() {
	f.again = nil
	next, started := f.p.position()
	if !started || f.checked != nil {
		return
	}
	checked := make(chan verdict, 1)
	if f.p.r.spawn(func() {
		_, err := f.p.check(next)
		checked <- verdict{next, err}
	}) {
		f.checked = checked
	}
}

// judge does what a look calls for.
func (f *feed) judge(v verdict) {
	next, started := f.p.position()
	if !started {
		return
	}
	if errors.Is(v.err, framework.ErrBelowLogStart) && next != v.of {
		f.look() // the log may have lost what was read by then
		return
	}
	err := v.err
	if errors.Is(err, errNoTopic) {
		err = f.absent(err)
	} else {
		f.missing = time.Time{}
	}
	if err == nil && f.own == nil {
		err = f.open(f.p.rewind())
	}
	switch {
	case err == nil:
	case permanent(err):
		f.close()
		f.p.failed(explain(err))
	default:
		f.p.r.log.Warn("a partition's position could not be checked; trying again", "topic", f.p.tp.Topic, "partition", f.p.tp.Partition, "error", err)
		f.later()
	}
}

// absent refuses a topic that has been missing for too long.
func (f *feed) absent(err error) error {
	if f.missing.IsZero() {
		f.missing = time.Now()
	}
	if time.Since(f.missing) >= f.p.r.cfg.TopicWait {
		return refused(err)
	}
	return err
}

// later looks again after a pause that grows from 100 ms to 5 s.
func (f *feed) later() {
	f.strikes++
	f.again = time.After(min(100*time.Millisecond<<min(f.strikes, 10), 5*time.Second))
}
