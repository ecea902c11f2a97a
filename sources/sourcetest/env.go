package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// env is what one case works with. Names are its own.
type env struct {
	h     Harness
	ctx   context.Context
	r     reporter
	rule  string
	topic string
	group string

	processes []*process
}

// fatalf ends the case: it states the rule, then what was seen instead. It must
// be called from the case's own goroutine.
func (e *env) fatalf(format string, args ...any) {
	e.r.Helper()
	e.errorf(format, args...)
	e.r.FailNow()
}

func (e *env) errorf(format string, args ...any) {
	e.r.Helper()
	e.broken(e.rule, format, args...)
}

// broken reports a rule that is not the case's own.
func (e *env) broken(rule, format string, args ...any) {
	e.r.Helper()
	e.r.Errorf("\nrule: %s\nseen: %s", rule, fmt.Sprintf(format, args...))
}

func (e *env) tp(n int32) offsetstore.TopicPartition {
	return offsetstore.TopicPartition{Topic: e.topic, Partition: n}
}

// create makes the case's topic.
func (e *env) create(partitions int32) {
	e.r.Helper()
	e.harness("Create", e.h.Create(e.ctx, e.topic, partitions))
}

// harness ends the case if the log could not be changed.
func (e *env) harness(what string, err error) {
	e.r.Helper()
	if err != nil {
		e.fatalf("nothing yet: Harness.%s returned %v", what, err)
	}
}

// append writes records number from to to-1, one each.
func (e *env) append(n int32, from, to int) {
	e.r.Helper()
	var records []framework.Record
	for i := from; i < to; i++ {
		records = append(records, numbered(i))
	}
	e.harness("Append", e.h.Append(e.ctx, e.tp(n), records...))
}

// letTimePass gives a silent partition the time to deliver what it should not,
// while another one reads, which has read everything below from. A source that is
// right passes however long that is.
func (e *env) letTimePass(s *lanes, other *lane, from int) {
	e.r.Helper()
	for at := from; at < from+50; at += 10 {
		e.append(other.tp.Partition, at, at+10)
		s.waitNext(other, int64(at+10))
		time.Sleep(10 * time.Millisecond)
	}
}

// epoch is the timestamp of record 0; each further one is a second later. It is
// recent, since a log may remove old records by itself.
var epoch = time.Now().Add(-time.Hour).Truncate(time.Millisecond)

func timestamp(i int) time.Time { return epoch.Add(time.Duration(i) * time.Second) }

func numbered(i int) framework.Record {
	return framework.Record{
		Key:       fmt.Appendf(nil, "k%d", i),
		Value:     fmt.Appendf(nil, "v%d", i),
		Timestamp: timestamp(i),
	}
}

// process is a running source, as another process of the group would have it.
type process struct {
	e     *env
	src   framework.Source
	lanes *lanes
	stop  context.CancelFunc
	done  chan struct{}
	err   error
}

func (e *env) open() framework.Source {
	e.r.Helper()
	src, err := e.h.Open(e.topic, e.group)
	if err != nil {
		e.fatalf("the source could not be opened: %v", err)
	}
	return src
}

// run starts a process whose lanes are l.
func (e *env) run(l *lanes) *process {
	e.r.Helper()
	p := &process{e: e, src: e.open(), lanes: l, done: make(chan struct{})}
	e.processes = append(e.processes, p)
	var ctx context.Context
	ctx, p.stop = context.WithCancel(context.WithoutCancel(e.ctx))
	go func() {
		defer close(p.done)
		p.err = p.src.Run(ctx, l)
		l.end()
	}()
	return p
}

// end stops a process and waits until Run has returned.
func (p *process) end() {
	p.e.r.Helper()
	p.stop()
	select {
	case <-p.done:
		if p.err != nil {
			p.e.broken("Run returns nil after a cancel", "Run returned %v", p.err)
		}
	case <-time.After(p.e.h.Timeout):
		p.e.broken("Run returns soon after a cancel", "Run did not return")
	}
	p.lanes.starters.Wait()
}

// closeAll ends every process, also those that a case has ended already.
func (e *env) closeAll() {
	e.r.Helper()
	for _, p := range slices.Backward(e.processes) {
		select {
		case <-p.done:
			if p.err != nil {
				e.broken("Run goes on until it is cancelled", "Run returned %v", p.err)
				continue
			}
		default:
		}
		p.end()
	}
}

// wantPositionError checks the form of a refused position.
func (e *env) wantPositionError(what string, err, want error) {
	e.r.Helper()
	var pe *framework.PositionError
	if !errors.Is(err, want) || !errors.As(err, &pe) {
		e.fatalf("%s: got %v (%T), want a *framework.PositionError with %q", what, err, err, want)
	}
	if pe.TopicPartition.Topic != e.topic {
		e.fatalf("%s: the error names %s, want topic %s", what, pe.TopicPartition, e.topic)
	}
}

// sequence is from, from+1, … below to.
func sequence(from, to int64) []int64 {
	out := make([]int64, 0, to-from)
	for ; from < to; from++ {
		out = append(out, from)
	}
	return out
}

func short(offsets []int64) string {
	if len(offsets) <= 20 {
		return fmt.Sprint(offsets)
	}
	return fmt.Sprintf("%v … %v (%d)", offsets[:10], offsets[len(offsets)-5:], len(offsets))
}
