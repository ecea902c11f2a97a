package memory

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Options are the settings of one sink. The zero value works.
type Options[W any] struct {
	// Owner is the name under which claims are listed. Defaults to "sink-1",
	// "sink-2"… in the order of opening.
	Owner string
	// Check replaces the check of a single write: it returns the write's size in
	// bytes, or why it could never be saved. Defaults to the write's own method
	// Check() (int, error) if it has one, to the length of strings and byte
	// slices, and else to the size of the type.
	Check func(w W) (size int, err error)
	// Hooks make faults. Defaults to none.
	Hooks Hooks[W]
}

// Sink is one process's handle to a [Store].
type Sink[W any] struct {
	store *Store[W]
	owner string
	check func(W) (int, error)
	hooks Hooks[W]

	closing context.Context // ends when the sink is closed
	close   context.CancelFunc
}

// The powers of the sink.
var (
	_ framework.Sink[Row]         = (*Sink[Row])(nil)
	_ framework.PositionLister    = (*Sink[Row])(nil)
	_ framework.DeadLetterLister  = (*Sink[Row])(nil)
	_ framework.DeadLetterDropper = (*Sink[Row])(nil)
	_ framework.StateLister       = (*Sink[Row])(nil)
	_ framework.Resetter          = (*Sink[Row])(nil)
	_ framework.HealthChecker     = (*Sink[Row])(nil)
)

// Open returns a new handle to the store, as a newly started process would have
// it.
func (s *Store[W]) Open(o Options[W]) *Sink[W] {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened++
	if o.Owner == "" {
		o.Owner = fmt.Sprintf("sink-%d", s.opened)
	}
	if o.Check == nil {
		o.Check = checkWrite[W]
	}
	closing, cancel := context.WithCancel(context.Background())
	return &Sink[W]{store: s, owner: o.Owner, check: o.Check, hooks: o.Hooks, closing: closing, close: cancel}
}

func checkWrite[W any](w W) (int, error) {
	switch w := any(w).(type) {
	case interface{ Check() (int, error) }:
		return w.Check()
	case string:
		return len(w), nil
	case []byte:
		return len(w), nil
	default:
		return int(reflect.TypeFor[W]().Size()), nil
	}
}

// Guarantee promises everything, within the life of the process.
func (s *Sink[W]) Guarantee() framework.Guarantee {
	return framework.Guarantee{
		Level:       framework.ExactlyOnce,
		State:       true,
		DeadLetters: true,
		Note:        "kept in memory: lost when the process ends",
	}
}

// Check refuses a write as [Options] say and returns its size in bytes.
func (s *Sink[W]) Check(w W) (int, error) { return s.check(w) }

// Topic stores propose unless something is stored already, and returns what is
// stored.
func (s *Sink[W]) Topic(ctx context.Context, pipeline, topic string, propose framework.TopicStart) (framework.TopicStart, error) {
	var stored framework.TopicStart
	err := s.enter(ctx, func(ctx context.Context) error {
		if hook := s.hooks.BeforeTopic; hook != nil {
			return hook(ctx, pipeline, topic)
		}
		return nil
	}, func() {
		key := topicKey{pipeline, topic}
		if _, ok := s.store.topics[key]; !ok {
			s.store.topics[key] = cloneTopicStart(propose)
		}
		stored = cloneTopicStart(s.store.topics[key])
	})
	if err != nil {
		return framework.TopicStart{}, fmt.Errorf("memory: pipeline %q: topic %s: %w", pipeline, topic, err)
	}
	return stored, nil
}

// Claim makes the caller the only owner of tp.
func (s *Sink[W]) Claim(ctx context.Context, pipeline string, tp offsetstore.TopicPartition, start offsetstore.Position) (framework.Claim[W], error) {
	c := &claim[W]{sink: s, pipeline: pipeline, tp: tp}
	err := s.enter(ctx, func(ctx context.Context) error {
		if hook := s.hooks.BeforeClaim; hook != nil {
			return hook(ctx, pipeline, tp)
		}
		return nil
	}, func() {
		key := laneKey{pipeline, tp}
		l := s.store.lanes[key]
		if l == nil {
			l = &lane[W]{progress: framework.Progress{Position: start}, state: map[stateKey][]byte{}}
			s.store.lanes[key] = l
		}
		s.store.tokens++
		l.claim, l.owner = s.store.tokens, s.owner
		c.lane, c.token, c.progress = l, l.claim, cloneProgress(l.progress)
	})
	if err != nil {
		return nil, fmt.Errorf("memory: pipeline %q: claim of %s: %w", pipeline, tp, err)
	}
	return c, nil
}

// enter runs hook and then, if nothing speaks against it, do under the store's
// lock.
func (s *Sink[W]) enter(ctx context.Context, hook func(context.Context) error, do func()) error {
	if err := s.mayRun(ctx); err != nil {
		return err
	}
	if err := s.runHook(ctx, hook); err != nil {
		return err
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	// Asked again under the lock: a call that Close or a cancel cut short while
	// its hook ran must not take effect any more.
	if err := s.mayRun(ctx); err != nil {
		return err
	}
	do()
	return nil
}

// runHook runs hook with a context that also ends with the sink. A hook that
// was ended by Close returns what such a call has to return.
func (s *Sink[W]) runHook(ctx context.Context, hook func(context.Context) error) error {
	hookCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	err := hook(hookCtx)
	if errors.Is(err, context.Canceled) && s.closing.Err() != nil {
		return framework.ErrClosed
	}
	return err
}

// mayRun says why a call cannot go on: closed, or cancelled.
func (s *Sink[W]) mayRun(ctx context.Context) error {
	if s.closing.Err() != nil {
		return framework.ErrClosed
	}
	return ctx.Err()
}

// Positions lists every stored position of pipeline, or of all when it is "".
func (s *Sink[W]) Positions(ctx context.Context, pipeline string) ([]framework.StoredPosition, error) {
	if err := s.mayRun(ctx); err != nil {
		return nil, fmt.Errorf("memory: positions: %w", err)
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	var ps []framework.StoredPosition
	for _, k := range s.store.sortedLanes(pipeline) {
		l := s.store.lanes[k]
		ps = append(ps, framework.StoredPosition{
			Pipeline:       k.pipeline,
			TopicPartition: k.tp,
			Progress:       cloneProgress(l.progress),
			Owner:          l.owner,
			SavedAt:        l.savedAt,
		})
	}
	return ps, nil
}

// DeadLetters returns the dead letters of tp in offset order.
func (s *Sink[W]) DeadLetters(ctx context.Context, pipeline string, tp offsetstore.TopicPartition) ([]framework.DeadLetter, error) {
	if err := s.mayRun(ctx); err != nil {
		return nil, fmt.Errorf("memory: pipeline %q: dead letters of %s: %w", pipeline, tp, err)
	}
	return s.store.DeadLetters(pipeline, tp), nil
}

// Health returns nil until the sink is closed.
func (s *Sink[W]) Health(ctx context.Context) error { return s.mayRun(ctx) }

// Close ends the sink; the store and what it holds stay.
func (s *Sink[W]) Close(context.Context) error {
	// Under the lock, so that no save takes effect after Close has returned.
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.close()
	return nil
}
