package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Source reads Kafka topics as a member of a consumer group. Create it with
// [New].
type Source struct {
	cfg  Config
	used atomic.Bool
}

var _ framework.Source = (*Source)(nil)

// New returns a source for cfg, or an error that wraps [framework.ErrConfig]
// and names the field at fault. It connects to nothing.
func New(cfg Config) (*Source, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Source{cfg: cfg}, nil
}

// Run joins the group and reports to lanes until ctx is cancelled, then leaves
// (unless it is a static member) and returns nil. It runs once.
//
// Otherwise it returns an error that wraps [framework.ErrUnavailable] if no
// broker answered within StartWait, or [framework.ErrConfig] for what waiting
// cannot mend: a refused login, a missing topic, missing rights, a group that is
// used by other kinds of consumers, or an InstanceID that two processes use.
func (s *Source) Run(ctx context.Context, lanes framework.Lanes) error {
	if s.used.Swap(true) {
		return fmt.Errorf("kafka source: Run was called before: %w", framework.ErrClosed)
	}
	r := &run{
		cfg:      s.cfg,
		lanes:    lanes,
		log:      newLogger(s.cfg.Logger.With("group", s.cfg.Group)),
		parts:    make(map[offsetstore.TopicPartition]*partition),
		topicIDs: make(map[string]offsetstore.TopicID),
		changed:  make(chan struct{}),
		mirrors:  make(chan struct{}, 1),
		joined:   make(chan struct{}),

		committing: make(turn, 1),
		wake:       func() {},
	}
	return r.run(ctx)
}

// run is one Run. Three parties work on it: the polling goroutine (poll.go),
// the client's group goroutine, which calls back one at a time (group.go), and
// whoever calls the methods of a partition.
type run struct {
	cfg   Config
	lanes framework.Lanes
	log   *logger
	conns connErrors
	fetch fetchSize
	cl    *kgo.Client
	// cutOff ends every request of the client, for a close that must not wait.
	cutOff context.CancelFunc

	ctx    context.Context // ends when polling has ended
	cancel context.CancelFunc
	wg     sync.WaitGroup // goroutines beside the polling one

	mirrors    chan struct{} // a position waits to be mirrored
	joined     chan struct{} // closed with the first assignment
	joinedOnce sync.Once
	committing turn

	mu         sync.Mutex
	parts      map[offsetstore.TopicPartition]*partition
	topicIDs   map[string]offsetstore.TopicID // the topics as the client knows them
	generation int32                          // whose assignment has been reported in full
	changed    chan struct{}                  // closed and replaced when generation or a partition's state changes
	leaving    bool                           // nobody polls any more
	ended      bool                           // no goroutine may be started any more
	seeks      []*seek
	lastSeek   time.Time // when seeks were last carried out
	wake       func()    // interrupts the poll
	fatal      error     // why Run must end
}

func (r *run) run(ctx context.Context) error {
	var err error
	if r.cl, err = r.newClient(); err != nil {
		return refused(err)
	}
	if err := r.awaitTopics(ctx); err != nil {
		r.cl.Close()
		r.cutOff()
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	r.wg.Go(r.mirrorLoop)
	r.wg.Go(r.watchTopics)
	r.wg.Go(r.watchJoin)
	r.cl.AddConsumeTopics(r.cfg.Topics...)
	err = r.poll(ctx)
	r.leave()
	return err
}

// leave gives the partitions up in order, leaves the group and waits until
// nothing of this run is left.
func (r *run) leave() {
	r.mu.Lock()
	r.leaving = true
	r.failSeeks()
	r.mu.Unlock()

	// The partitions first: leaving waits for a rebalance that is under way, up to
	// the session timeout of a member that has died, and that is worth waiting for
	// only while we hold something.
	r.revoke(r.all())
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if err := r.cl.LeaveGroupContext(ctx); err != nil && !errors.Is(err, kgo.ErrClientClosed) {
		r.log.warn("", "could not leave the consumer group in time; it gives the partitions to others after the session timeout", "error", err)
		r.cutOff() // closing would wait for the same
	}
	r.cl.Close()
	r.cutOff()
	r.cancel()
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.wg.Wait()
	r.lose(r.all()) // none, unless the group's goroutine ended without a callback
}

// leaveTimeout bounds the request that leaves the group. It is a courtesy: without
// it the group waits for the session timeout.
const leaveTimeout = 3 * time.Second

// revokeTime is how long lanes may take to give partitions up.
func (r *run) revokeTime() time.Duration {
	limit := r.cfg.RebalanceTimeout
	if r.isLeaving() {
		// No heartbeat is sent while leaving.
		limit = min(limit, r.cfg.SessionTimeout)
	}
	return limit * 9 / 10
}

func (r *run) isLeaving() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leaving
}

// spawn runs f in a goroutine that Run waits for, and reports whether it could.
func (r *run) spawn(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.wg.Go(f)
	}
	return !r.ended
}

// fail ends the run with err, once the poll has noticed.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fatal == nil {
		r.fatal = err
	}
	r.wake()
}

// notify wakes whoever waits for a change of generation or partition state. The
// caller holds r.mu.
func (r *run) notify() {
	close(r.changed)
	r.changed = make(chan struct{})
}
