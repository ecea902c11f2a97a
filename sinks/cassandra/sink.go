package cassandra

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Sink saves outputs and positions in Cassandra. Make it with [Open]. Its methods
// may be called concurrently.
type Sink struct {
	*engine
	cfg     Config
	session *gocql.Session
	cql     *cqlStore
	catalog *catalog

	checkMu  sync.Mutex
	checked  bool      // the real tables were found to be as the program describes them
	tried    bool      // they were found to take what saves write
	unread   error     // why the server's settings are not known
	verified time.Time // when they were last found to be still the same ones
}

var (
	_ framework.Sink[Write]       = (*Sink)(nil)
	_ framework.PositionLister    = (*Sink)(nil)
	_ framework.DeadLetterLister  = (*Sink)(nil)
	_ framework.DeadLetterDropper = (*Sink)(nil)
	_ framework.StateLister       = (*Sink)(nil)
	_ framework.Flusher           = (*Sink)(nil)
	_ framework.Resetter          = (*Sink)(nil)
	_ framework.Migrator          = (*Sink)(nil)
	_ framework.HealthChecker     = (*Sink)(nil)
	_ framework.Claim[Write]      = (*claim)(nil)
)

// Open connects to the cluster, checks its version, settings and clock, and
// compares the tables of cfg with the real ones. It only reads; before the first
// [Sink.Topic] or [Sink.Claim] trial rows are written and removed. Where the sink's own tables do
// not exist yet only [Sink.Migrate] works, and all else says so.
//
// While the cluster is not up it waits, for cfg.StartWait or until ctx ends. The
// Sink must be closed.
func Open(ctx context.Context, cfg Config) (*Sink, error) {
	return open(ctx, cfg, systemClock(), defaultTuning())
}

func open(ctx context.Context, cfg Config, c clock, tu tuning) (*Sink, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	began, limit := c.now(), cfg.StartWait
	for {
		s, err := openOnce(ctx, cfg, c, tu)
		// A node that is just coming up answers, and then does not.
		cfg.StartWait = limit - c.now().Sub(began)
		if !errors.Is(err, framework.ErrUnavailable) || cfg.StartWait <= 0 || ctx.Err() != nil {
			return s, err
		}
		cfg.Logger.Info("cassandra: the cluster answered, and then did not; trying again", "error", err)
		if cause := c.sleep(ctx, time.Second); cause != nil {
			return nil, fmt.Errorf("%w (%w)", cause, err)
		}
	}
}

// openOnce is one attempt. While the cluster does not answer at all, openSession
// waits.
func openOnce(ctx context.Context, cfg Config, c clock, tu tuning) (*Sink, error) {
	l := new(links)
	session, err := openSession(ctx, &cfg, l)
	if err != nil {
		return nil, err
	}
	facts, err := preflight(ctx, session, &cfg)
	if err != nil {
		session.Close()
		return nil, err
	}
	s := &Sink{
		cfg: cfg, session: session, unread: facts.unread,
		cql:     &cqlStore{session: session, keyspace: cfg.Keyspace, consistency: cfg.Consistency, timeout: cfg.Timeout, now: c.now},
		catalog: newCatalog(session, &cfg),
	}
	s.engine = newEngine(s.cql, s.catalog, c, tu.fit(facts), owner(), cfg.Logger)
	s.links = l
	s.engine.verify = s.verify
	s.guard.compare = func(ctx context.Context) error { return checkClocks(ctx, session, &s.cfg) }
	s.guard.opened = c.now() // and compared by the preflight
	if err := s.check(ctx); err != nil && !errors.Is(err, errNotMigrated) {
		session.Close()
		return nil, err
	}
	return s, nil
}

// errNotMigrated: the keyspace has no ledger yet.
var errNotMigrated = fmt.Errorf("%w: the sink's tables do not exist; run Migrate, `lockstep migrate --sink …`, or lockstep.cql", framework.ErrConfig)

// owner names this process in the ledger, for people.
func owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// check compares the tables with the real ones, until that has succeeded once.
func (s *Sink) check(ctx context.Context) error {
	s.checkMu.Lock()
	defer s.checkMu.Unlock()
	if s.checked {
		return nil
	}
	ledger := realTable{name: ledgerTable}
	if err := s.catalog.readTable(ctx, &ledger); err != nil {
		return err
	}
	if !ledger.exists {
		return fmt.Errorf("keyspace %q: %w", s.cfg.Keyspace, errNotMigrated)
	}
	targets := make([]*target, 0, len(s.cfg.Tables)+2)
	for _, t := range append([]AnyTable{stateRows, deadRows}, s.cfg.Tables...) {
		target, err := t.declared()
		if err != nil {
			return err
		}
		targets = append(targets, target)
	}
	if err := s.catalog.check(ctx, targets...); err != nil {
		return err
	}
	s.checked, s.verified = true, time.Now()
	return nil
}

// try writes what a save would, until that has succeeded once.
func (s *Sink) try(ctx context.Context) error {
	s.checkMu.Lock()
	defer s.checkMu.Unlock()
	if s.tried {
		return nil
	}
	if s.unread != nil {
		return s.unread
	}
	err := canary(ctx, s.session, &s.cfg)
	s.tried = err == nil
	return err
}

// verifyInterval is how long a check of the tables is good for. All lanes share it.
const verifyInterval = 10 * time.Second

// verify notices tables that were dropped and made again since they were checked:
// the driver would go on writing to them without a word. It does not wait where
// another lane is at it, nor fail where the schema cannot be read: then nothing
// else works either, and says so better.
func (s *Sink) verify(ctx context.Context) error {
	if !s.checkMu.TryLock() {
		return nil
	}
	defer s.checkMu.Unlock()
	if time.Since(s.verified) < verifyInterval {
		return nil
	}
	err := s.catalog.verify(ctx)
	if err == nil {
		s.verified = time.Now()
	}
	if errors.Is(err, framework.ErrConfig) {
		return err
	}
	return nil
}

// ready is begin for a call that needs the tables.
func (s *Sink) ready(ctx context.Context) (context.Context, func(), error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := s.check(ctx); err != nil {
		end()
		return nil, nil, err
	}
	return ctx, end, nil
}

// readyToSave is ready for a call of one who is going to save. An operator who
// lists positions may have no permission to write.
func (s *Sink) readyToSave(ctx context.Context) (context.Context, func(), error) {
	ctx, end, err := s.ready(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := s.try(ctx); err != nil {
		end()
		return nil, nil, err
	}
	return ctx, end, nil
}

// Guarantee implements [framework.Sink].
func (s *Sink) Guarantee() framework.Guarantee {
	return framework.Guarantee{
		Level: framework.ExactlyOnce, State: true, DeadLetters: true,
		Note: "rows of one batch become visible a Cassandra partition at a time; for a row that several Kafka partitions write, the last clock wins",
	}
}

// Check implements [framework.Sink]. It needs no connection.
func (s *Sink) Check(w Write) (int, error) {
	if err := w.check(s.tuning.writeBytes); err != nil {
		return 0, err
	}
	b, ok := s.catalog.bound(w.target)
	if !ok {
		return 0, fmt.Errorf("%w: table %q is not among Config.Tables", framework.ErrConfig, w.target.name)
	}
	if err := b.checkIndexed(w.row); err != nil {
		return 0, err
	}
	return w.size(), nil
}

// Claim implements [framework.Sink]. It may take as long as applying one batch,
// if an earlier owner stopped between the commit and the end of that.
func (s *Sink) Claim(ctx context.Context, pipeline string, tp offsetstore.TopicPartition, start offsetstore.Position) (framework.Claim[Write], error) {
	ctx, end, err := s.readyToSave(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	lane := laneKey{pipeline: pipeline, topic: tp.Topic, partition: tp.Partition}
	if err := lane.validate(); err != nil {
		return nil, err
	}
	if start.Offset < 0 {
		return nil, fmt.Errorf("%s: %w: the start offset %d is negative", lane, framework.ErrConfig, start.Offset)
	}
	c, err := s.claimLane(ctx, lane, start)
	if err != nil {
		return nil, fmt.Errorf("%s: claim: %w", lane, err)
	}
	return c, nil
}

// Migrate implements [framework.Migrator] with the function [Migrate].
func (s *Sink) Migrate(ctx context.Context) error {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := Migrate(ctx, s.cfg); err != nil {
		return err
	}
	return s.check(ctx)
}

// Health implements [framework.HealthChecker]: it asks one node for one row.
func (s *Sink) Health(ctx context.Context) error {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	q, cancel := s.cql.query(ctx, "SELECT release_version FROM system.local")
	defer cancel()
	var version string
	if err := q.Consistency(gocql.One).Scan(&version); err != nil {
		return storeError(err)
	}
	return nil
}

// Close implements [framework.Sink]. Saves in flight get a moment to finish. If
// ctx ends first, the rest ends in the background.
func (s *Sink) Close(ctx context.Context) error {
	return s.shut(ctx, s.session.Close)
}
