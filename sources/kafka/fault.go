package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/framework"
)

// readError deals with an error that the client met while reading and does not
// retry by itself. One that concerns a partition suspends it, so that it is not
// fetched again and again, and has it looked into.
func (r *run) readError(topic string, number int32, err error) {
	var session *kgo.ErrGroupSession
	switch {
	case errors.Is(err, kgo.ErrClientClosed), topic == "" && errors.Is(err, context.Canceled):
		return // we are stopping, or the poll was interrupted
	case errors.As(err, &session):
		if hopeless(err) != "" {
			r.fail(explain(err))
			return
		}
		r.log.warn("", "the session with the consumer group ended; joining again", "error", err)
	case topic == "" && errors.Is(err, context.DeadlineExceeded):
		return // the poll's own time is over
	case topic == "" || number < 0:
		if hopeless(err) != "" {
			r.fail(explain(err))
			return
		}
		r.log.warn(topic, "reading failed; trying again", "topic", topic, "error", err)
	default:
		p := r.partition(topic, number)
		if p == nil {
			return
		}
		p.mu.Lock()
		started := p.started
		p.suspend(err)
		p.mu.Unlock()
		if !started && hopeless(err) != "" {
			// The client has given up on it before it ever read, and would stay
			// silent.
			r.fail(explain(err))
		}
	}
}

// suspend stops fetching until the cause is known. The caller holds mu.
func (p *partition) suspend(cause error) {
	if p.dead || p.revoking || !p.started || p.suspended {
		return
	}
	p.suspended = true
	if time.Since(p.readSince) > calm {
		p.strikes = 0 // what came before has passed, though no record has come since
	}
	p.strikes++
	p.apply()
	p.run.log.warn(p.tp.String(), "reading a partition failed; checking its position", "topic", p.tp.Topic, "partition", p.tp.Partition, "position", p.next.Offset, "error", cause)
	strikes, seeks := p.strikes, p.seeks
	p.run.spawn(func() {
		if err := p.diagnose(cause, strikes, seeks); err != nil {
			p.failed(err, seeks)
		}
	})
}

// diagnose returns why the partition can never be read on, or sets it back to
// its position once that has been found good. It returns nil as well if the
// partition died or was started again meanwhile.
func (p *partition) diagnose(cause error, strikes, seeks int) error {
	ctx, done := p.scope(p.run.ctx)
	defer done()
	p.mu.Lock()
	next := p.next
	p.mu.Unlock()

	switch {
	case hopeless(cause) != "":
		return explain(cause)
	case undecodable(cause) && strikes > maxStrikes:
		return fmt.Errorf("kafka source: %s: the record at offset %d cannot be read: %w", p.tp, next.Offset, cause)
	}
	_, err := retry(ctx, p.run, p.tp.String(), func() (standing, error) { return p.check(ctx, next) })
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return explain(err)
	}
	if loss := (*kgo.ErrDataLoss)(nil); errors.As(cause, &loss) {
		// The client compared epochs and has already moved. If the check found
		// nothing, the log has grown past the position again since.
		return &framework.PositionError{TopicPartition: p.tp, Position: next, LogEnd: loss.ResetTo, TopicID: next.TopicID, Err: framework.ErrAboveLogEnd}
	}
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(retryDelay(strikes)):
	}
	p.resumeReading(ctx, seeks)
	return nil
}

// resumeReading seeks to where the partition stopped, unless it was started
// anew.
func (p *partition) resumeReading(ctx context.Context, seeks int) {
	p.mu.Lock()
	current := p.suspended && p.started && p.seeks == seeks
	next := p.next
	p.mu.Unlock()
	if current {
		_ = p.seekBack(ctx, next, seeks) // it fails only when the partition is gone
	}
}

// undecodable reports whether the error is about the bytes themselves. Fetching
// them again may help (a fault in transit), but not for ever.
func undecodable(err error) bool {
	var code *kerr.Error
	var network net.Error
	return !errors.As(err, &code) && !errors.As(err, &network) && !errors.Is(err, context.Canceled) && !errors.Is(err, errMovedBack) && !errors.Is(err, errNoTopic) && !errors.Is(err, errOtherTopic)
}

// failed tells the lanes that the partition cannot be read any more.
func (p *partition) failed(err error, seeks int) {
	p.deliver.Lock()
	defer p.deliver.Unlock()
	p.mu.Lock()
	current := !p.dead && !p.revoking && p.started && p.suspended && p.seeks == seeks
	if current {
		p.started = false
		p.apply()
	}
	p.mu.Unlock()
	if current {
		p.run.lanes.Failed(p, err)
	}
}

var errMovedBack = errors.New("the client delivered records from before the position")

// calm is how long a partition must have been read without an error for the next
// one to count as the first. The client does not tell of answers without records,
// so time has to; a record that cannot be decoded is met again much sooner.
const calm = time.Minute

// maxStrikes is how many times a record that cannot be decoded is fetched again
// before the partition fails.
const maxStrikes = 4

// retryDelay grows from 100 ms to 5 s.
func retryDelay(strikes int) time.Duration {
	return min(100*time.Millisecond<<min(strikes, 10), 5*time.Second)
}
