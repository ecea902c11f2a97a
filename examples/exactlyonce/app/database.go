package app

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
)

// Database is where the example saves its tables together with the positions.
// It is the only thing that knows which sink is used.
type Database interface {
	// Migrate creates what does not exist yet.
	Migrate(ctx context.Context) error
	// Run runs the pipeline from source until ctx ends, see [framework.Runner].
	// observe is given the runner as soon as there is one.
	Run(ctx context.Context, source framework.Source, cfg framework.Config, observe func(*framework.Runner)) error
	// Read opens the database for looking at it.
	Read(ctx context.Context) (Reader, error)
}

// Reader looks at the tables and positions, from any process and at any time.
type Reader interface {
	// Events and Alerts call visit for each row of topic, in any order.
	Events(ctx context.Context, topic string, visit func(EventRow)) error
	Alerts(ctx context.Context, topic string, visit func(AlertRow)) error
	// Positions returns the next offset to read, by partition, where there is
	// one.
	Positions(ctx context.Context, topic string) (map[int32]int64, error)
	Close() error
}

// ParseDatabase chooses the database by the scheme of a data source name:
// cassandra://hosts/keyspace, postgres://host/database or sqlite://path. setting names the flag in errors,
// which match [framework.ErrConfig]. A server that is not up yet is waited for, at
// most wait, unless the name itself says how long. It connects to nothing.
func ParseDatabase(setting, dsn string, wait time.Duration, log *slog.Logger) (Database, error) {
	scheme, _, found := strings.Cut(dsn, "://")
	var db Database
	var err error
	switch {
	case !found:
		err = fmt.Errorf("%w: no scheme; write cassandra://hosts/keyspace, postgres://host/database or sqlite://path", framework.ErrConfig)
	case scheme == "cassandra":
		db, err = parseCassandra(dsn, wait, log)
	case scheme == "postgres", scheme == "postgresql":
		db, err = parsePostgres(dsn, wait, log)
	case scheme == "sqlite":
		db, err = parseSQLite(dsn)
	default:
		err = fmt.Errorf("%w: unknown scheme %q; known are cassandra, postgres and sqlite", framework.ErrConfig, scheme)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", setting, withoutLogin(dsn), err)
	}
	return db, nil
}

// withoutLogin hides the name and password in a data source name that is to be
// shown, even in a malformed one.
func withoutLogin(dsn string) string {
	i := strings.LastIndexByte(dsn, '@')
	if i < 0 {
		return dsn
	}
	scheme, _, found := strings.Cut(dsn[:i], "://")
	if !found {
		return "…" + dsn[i:]
	}
	return scheme + "://…" + dsn[i:]
}

// run is what Database.Run does with an open sink of any kind.
func run[W any](ctx context.Context, p *framework.Pipeline[W], source framework.Source, sink framework.Sink[W], cfg framework.Config, observe func(*framework.Runner)) error {
	r, err := framework.NewRunner(p, source, sink, cfg)
	if err != nil {
		return err
	}
	observe(r)
	return r.Run(ctx)
}

// positions lists the positions of one topic.
func positions(ctx context.Context, sink framework.PositionLister, topic string) (map[int32]int64, error) {
	stored, err := sink.Positions(ctx, Name)
	if err != nil {
		return nil, err
	}
	offsets := map[int32]int64{}
	for _, p := range stored {
		if p.Topic == topic {
			offsets[p.Partition] = p.Position.Offset
		}
	}
	return offsets, nil
}
