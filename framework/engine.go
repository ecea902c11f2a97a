package framework

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// engine is a running Runner: it starts a lane for each assigned partition and
// ends all of them together.
type engine[W any] struct {
	pipeline *Pipeline[W]
	source   Source
	sink     Sink[W]
	cfg      Config
	claims   *semaphore.Weighted
	topics   topicStarts
	failing  chan struct{} // closed when the first error asks for a stop
	failOnce sync.Once

	wg       sync.WaitGroup
	count    atomic.Int64 // of lanes that have not ended
	mu       sync.Mutex
	lanes    map[Partition]*lane[W]
	alive    map[*lane[W]]bool // that have not ended, assigned or not
	assigned bool              // the source has said what is ours, if only nothing
	draining bool
	err      error // the first
}

func newEngine[W any](p *Pipeline[W], source Source, sink Sink[W], cfg Config) *engine[W] {
	cfg.Logger = cfg.Logger.With("pipeline", p.name)
	return &engine[W]{
		pipeline: p, source: source, sink: sink, cfg: cfg,
		claims:  semaphore.NewWeighted(int64(cfg.ClaimsAtOnce)),
		failing: make(chan struct{}),
		lanes:   map[Partition]*lane[W]{},
		alive:   map[*lane[W]]bool{},
	}
}

// running holds the pipelines that run in this process, by sink and name: two on
// one sink would take the partitions from each other.
var running sync.Map

type runningKey struct {
	sink any
	name string
}

// enlist notes that the pipeline runs, and returns how to take that back.
func (e *engine[W]) enlist() (leave func(), err error) {
	key := runningKey{e.sink, e.pipeline.name}
	if !reflect.TypeOf(e.sink).Comparable() {
		return func() {}, nil
	}
	if _, taken := running.LoadOrStore(key, true); taken {
		return nil, fmt.Errorf("%w: %q runs already on this sink", ErrDuplicatePipeline, e.pipeline.name)
	}
	return func() { running.Delete(key) }, nil
}

func (e *engine[W]) run(ctx context.Context) error {
	leave, err := e.enlist()
	if err != nil {
		return err
	}
	defer leave()
	e.cfg.Logger.Info("pipeline starts", "guarantee", e.sink.Guarantee().Level.String(), "note", e.sink.Guarantee().Note)
	// The source outlives ctx: it keeps the partitions ours while lanes drain.
	sourceCtx, stopSource := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSource()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.note(e.runSource(sourceCtx))
	}()

	select {
	case <-ctx.Done():
	case <-e.failing:
	case <-ended:
	}
	e.drain()
	stopSource()
	<-ended
	e.wg.Wait()
	e.cfg.Logger.Info("pipeline stopped", "error", e.first())
	return e.first()
}

func (e *engine[W]) runSource(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = newPanic(v)
		}
	}()
	err = e.source.Run(ctx, e)
	if err == nil && ctx.Err() == nil {
		err = errors.New("it ended without being asked to")
	}
	if err != nil {
		err = fmt.Errorf("pipeline %q: source: %w", e.pipeline.name, err)
	}
	return err
}

// drain ends all lanes, in order while there is time.
func (e *engine[W]) drain() {
	lanes := e.stopAssigning()
	for _, l := range lanes {
		l.drain()
	}
	cut := time.AfterFunc(e.cfg.DrainTimeout, func() {
		for _, l := range lanes {
			l.cancel()
		}
	})
	for _, l := range lanes {
		<-l.done
	}
	if !cut.Stop() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.err = errors.Join(e.err, fmt.Errorf("pipeline %q: %w (%s)", e.pipeline.name, ErrDrainTimeout, e.cfg.DrainTimeout))
	}
}

func (e *engine[W]) stopAssigning() []*lane[W] {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.draining = true
	lanes := make([]*lane[W], 0, len(e.alive))
	for l := range e.alive {
		lanes = append(lanes, l)
	}
	return lanes
}

// note keeps the first error.
func (e *engine[W]) note(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.err = err
	}
}

func (e *engine[W]) first() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// laneEnded is called by each lane as its last act.
func (e *engine[W]) laneEnded(l *lane[W], err error) {
	e.count.Add(-1)
	e.mu.Lock()
	delete(e.alive, l)
	e.mu.Unlock()
	notify(e.cfg.Hooks.Ended, EndedEvent{e.pipeline.name, l.tp, err})
	if err == nil {
		return
	}
	e.note(err)
	if e.cfg.KeepOthers {
		return
	}
	e.failOnce.Do(func() { close(e.failing) })
}

// laneLimit is the byte bound of one lane: an equal share, and never so much
// that one stuck lane could take what the others need.
func (e *engine[W]) laneLimit() int {
	share := e.cfg.BufferBytes / max(1, int(e.count.Load()))
	return max(1, min(share, e.cfg.BufferBytes/4))
}

// laneCache is what one lane may keep of saved totals: an equal share, in bytes.
// Unlike laneLimit it has no other cap, since what is cached can be dropped.
func (e *engine[W]) laneCache() int {
	return e.cfg.CacheBytes / max(1, int(e.count.Load()))
}

// Assigned implements Lanes.
func (e *engine[W]) Assigned(ps []Partition) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.draining {
		return
	}
	e.assigned = true
	for _, p := range ps {
		l := newLane(e, p)
		e.lanes[p] = l
		e.alive[l] = true
		e.count.Add(1)
		e.wg.Go(l.run)
	}
}

// Records implements Lanes.
func (e *engine[W]) Records(p Partition, records []Record, logEnd int64) {
	if l := e.lane(p); l != nil && len(records) > 0 {
		l.inbox.put(newChunk(records, logEnd))
	}
}

// Failed implements Lanes.
func (e *engine[W]) Failed(p Partition, err error) {
	if l := e.lane(p); l != nil {
		l.inbox.fail(err)
		l.attend()
	}
}

// Revoked implements Lanes.
func (e *engine[W]) Revoked(ctx context.Context, ps []Partition) {
	lanes := e.remove(ps)
	for _, l := range lanes {
		l.drain()
	}
	for _, l := range lanes {
		select {
		case <-l.done:
		case <-ctx.Done():
			l.log.Warn("the partition goes to another owner before the save in flight ended; its claim decides what counts")
			l.cancel()
		}
	}
}

// Lost implements Lanes.
func (e *engine[W]) Lost(ps []Partition) {
	for _, l := range e.remove(ps) {
		l.log.Warn("partition lost")
		l.cancel()
	}
}

func (e *engine[W]) lane(p Partition) *lane[W] {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lanes[p]
}

func (e *engine[W]) remove(ps []Partition) []*lane[W] {
	e.mu.Lock()
	defer e.mu.Unlock()
	var removed []*lane[W]
	for _, p := range ps {
		if l := e.lanes[p]; l != nil {
			removed = append(removed, l)
			delete(e.lanes, p)
		}
	}
	return removed
}

func (e *engine[W]) status() []LaneStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]LaneStatus, 0, len(e.lanes))
	for _, l := range e.lanes {
		out = append(out, l.status.get())
	}
	return sortLanes(out)
}
