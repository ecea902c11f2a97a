package framework

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// lane is the work on one assigned partition: claim, read, compute, save. One
// goroutine runs it, and a second one saves the batch before while the next is
// computed.
//
// Two contexts end it. soft is cancelled to drain: no more is read, and what was
// processed is saved. ctx is cancelled to drop: the partition is not ours any
// more, or time is up.
type lane[W any] struct {
	e      *engine[W]
	part   Partition
	tp     offsetstore.TopicPartition
	log    *slog.Logger
	inbox  inbox
	status statusCell

	ctx    context.Context
	cancel context.CancelFunc
	soft   context.Context
	drain  context.CancelFunc
	done   chan struct{} // closed when run has ended
	wake   chan struct{} // something may have changed; capacity 1
	// attention makes the record loop look up between two records.
	attention atomic.Bool

	topicID  offsetstore.TopicID
	recovery recovery
	limits   limits
	tenure   *tenure[W] // what belongs to one claim
}

// errGone ends a lane without a fault: the partition is not ours any more, or
// the runner stops.
var errGone = errors.New("lane gone")

func newLane[W any](e *engine[W], p Partition) *lane[W] {
	tp := p.TopicPartition()
	l := &lane[W]{
		e: e, part: p, tp: tp,
		log:      e.cfg.Logger.With("topic", tp.Topic, "partition", tp.Partition),
		done:     make(chan struct{}),
		wake:     make(chan struct{}, 1),
		limits:   newLimits(e.cfg.BatchRecords),
		recovery: newRecovery(),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.soft, l.drain = context.WithCancel(l.ctx)
	context.AfterFunc(l.soft, l.attend)
	l.inbox = inbox{part: p, limit: e.laneLimit, wake: l.signal}
	l.status.s.TopicPartition = tp
	return l
}

// signal wakes the lane if it waits.
func (l *lane[W]) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// attend wakes the lane even in the middle of its records.
func (l *lane[W]) attend() {
	l.attention.Store(true)
	l.signal()
}

func (l *lane[W]) run() {
	defer close(l.done)
	defer l.cancel()
	err := errors.New("the lane's goroutine was ended by a handler (runtime.Goexit)")
	defer func() { l.end(err) }()
	defer func() {
		if v := recover(); v != nil {
			err = l.describe(newPanic(v))
		}
	}()
	err = l.live()
}

func (l *lane[W]) end(err error) {
	l.inbox.shut()
	if err == nil {
		l.status.phase(PhaseEnded, nil)
	} else {
		l.status.phase(PhaseFailed, err)
		l.logFailure(err)
	}
	l.e.laneEnded(l, err)
}

func (l *lane[W]) logFailure(err error) {
	attrs := []any{"error", err}
	var p *PanicError
	if errors.As(err, &p) {
		attrs = append(attrs, "stack", string(p.Stack))
	}
	l.log.Error("partition failed", attrs...)
}

// live claims and works until the lane is drained (nil), gone (nil), or failed.
func (l *lane[W]) live() error {
	for {
		err := l.serve()
		if err == nil {
			return nil
		}
		if err = l.again(err); errors.Is(err, errGone) {
			return nil
		}
		if err != nil {
			return l.describe(err)
		}
	}
}

// describe adds what the error does not say itself.
func (l *lane[W]) describe(err error) error {
	var re *RecordError
	var le *LaneError
	if errors.As(err, &re) || errors.As(err, &le) {
		return err
	}
	offset, stage := int64(-1), "start"
	if t := l.tenure; t != nil {
		stage = t.stage
		if t.claim != nil {
			offset = t.saved.Position.Offset
		}
	}
	return &LaneError{l.e.pipeline.name, l.tp, offset, stage, err}
}

// serve is one tenure: from a claim to its end. Nil means drained.
func (l *lane[W]) serve() error {
	l.inbox.shut()
	l.tenure = newTenure(l)
	l.status.phase(PhaseClaiming, nil)
	defer l.giveUp()
	if err := l.begin(); err != nil {
		return err
	}
	l.status.phase(PhaseRunning, nil)
	l.tenure.waitingSince = time.Now()
	l.inbox.reopen()
	return l.work()
}

// begin claims the partition and starts reading it where the sink says.
func (l *lane[W]) begin() error {
	l.tenure.stage = "claim"
	start, err := l.start(l.soft)
	if err != nil {
		return err
	}
	claim, err := l.claim(start)
	if err != nil {
		return err
	}
	if err := l.tenure.took(claim); err != nil {
		return err
	}
	l.reached(PointClaim)
	l.published()
	l.tenure.stage = "start"
	if err := l.seek(); err != nil {
		return err
	}
	l.tenure.stage = "process"
	l.log.Info("partition claimed", "position", l.tenure.saved.Position.Offset)
	notify(l.e.cfg.Hooks.Claimed, ClaimedEvent{l.e.pipeline.name, l.tp, l.tenure.saved.Position})
	return nil
}

// claimTimeout bounds one try to claim, so that partitions which cannot be
// claimed do not keep the others from their turn.
const claimTimeout = time.Minute

// claim claims the partition when it is the lane's turn.
func (l *lane[W]) claim(start offsetstore.Position) (Claim[W], error) {
	if err := l.e.claims.Acquire(l.soft, 1); err != nil {
		return nil, errGone
	}
	defer l.e.claims.Release(1)
	ctx, cancel := context.WithTimeout(l.soft, claimTimeout)
	defer cancel()
	return l.e.sink.Claim(ctx, l.e.pipeline.name, l.tp, start)
}

// published shows the saved progress to others.
func (l *lane[W]) published() {
	l.status.set(func(s *LaneStatus) {
		s.Position, s.Counters = l.tenure.saved.Position, l.tenure.counters
	})
}

// seek starts the source at the saved position, or, if the log does not have it
// any more, where the policy says; that position is saved first.
func (l *lane[W]) seek() error {
	err := l.read()
	var pe *PositionError
	if !errors.As(err, &pe) || !errors.Is(err, ErrBelowLogStart) || l.e.cfg.BelowLogStart == PositionStop {
		return err
	}
	to := pe.LogStart
	if l.e.cfg.BelowLogStart == PositionLatest {
		to = pe.LogEnd
	}
	lost := to - l.tenure.saved.Position.Offset
	if lost <= 0 {
		return err // what the source says contradicts itself
	}
	l.log.Warn("records were removed from the log before they were processed; going on without them",
		"position", pe.Position.Offset, "logStart", pe.LogStart, "logEnd", pe.LogEnd, "continueAt", to, "lostOffsets", lost)
	if err := l.skipTo(to, lost); err != nil {
		return err
	}
	return l.read()
}

// read starts the source at the saved position. What it reported before concerns
// an earlier start, and was overtaken by the claim.
func (l *lane[W]) read() error {
	l.inbox.shut()
	return l.part.Start(l.soft, l.resumeAt())
}

// resumeAt is the saved position; one saved by a version that did not know the
// topic's identity gets the one of the pipeline's first start.
func (l *lane[W]) resumeAt() offsetstore.Position {
	p := l.tenure.saved.Position
	p.TopicID = orDefault(p.TopicID, l.topicID)
	return p
}

func (l *lane[W]) skipTo(offset, lost int64) error {
	t := l.tenure
	t.counters.Lost += lost
	position := offsetstore.Position{Offset: offset, LeaderEpoch: offsetstore.NoLeaderEpoch, TopicID: l.resumeAt().TopicID}
	to := Progress{position, encodeLane(t.counters)}
	l.reached(PointBeforeSave)
	if err := t.save(l.ctx, &Batch[W]{From: t.saved, To: to}); err != nil {
		t.stage = "save"
		return err
	}
	l.reached(PointAfterSave)
	t.saved, t.end, t.start, t.last = to, to, offset, offset-1
	l.published()
	return nil
}

// releaseTimeout bounds the courtesy of a release.
const releaseTimeout = 5 * time.Second

// giveUp ends a tenure: the save in flight ends first, then the claim is
// released if it is still good.
func (l *lane[W]) giveUp() {
	t := l.tenure
	t.timer.Stop()
	if t.saving != nil {
		l.lastSave(<-t.results)
	}
	if t.claim == nil || t.spent || l.ctx.Err() != nil {
		return
	}
	if l.soft.Err() != nil {
		l.reached(PointDrain)
	}
	ctx, cancel := context.WithTimeout(l.ctx, releaseTimeout)
	defer cancel()
	if err := t.claim.Release(ctx); err != nil {
		l.log.Warn("releasing the claim failed; the next owner need not wait for it", "error", err)
	}
	t.spent = true
}

// lastSave takes the result of a save that ends after its tenure. What ended the
// tenure is what counts: a failure here changes neither the error nor the stage,
// and the next claim tells what is stored.
func (l *lane[W]) lastSave(r result) {
	if r.err != nil {
		l.log.Warn("the save in flight failed, too", "error", r.err)
		return
	}
	l.advance(l.tenure.saving, r.took)
}
