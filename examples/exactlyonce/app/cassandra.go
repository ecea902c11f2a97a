package app

import (
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"time"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/sinks/cassandra"
)

// CassandraSchema is schema.cql.
//
//go:embed schema.cql
var CassandraSchema string

// bucketOffsets is how many offsets of a partition share a Cassandra partition:
// about 10 MB of events.
const bucketOffsets = 100_000

// cassandraEvent adds to the row what only Cassandra needs.
type cassandraEvent struct {
	EventRow
	Bucket int32 `cql:"bucket,partition"`
}

// cassandraDB is a [Database] in Cassandra.
type cassandraDB struct {
	cfg    cassandra.Config
	events *cassandra.Table[cassandraEvent]
	alerts *cassandra.Table[AlertRow]
}

func parseCassandra(dsn string, wait time.Duration, log *slog.Logger) (Database, error) {
	cfg, err := cassandra.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	db := &cassandraDB{
		cfg:    cfg,
		events: cassandra.NewTable[cassandraEvent]("events"),
		alerts: cassandra.NewTable[AlertRow]("alerts"),
	}
	db.cfg.Tables = []cassandra.AnyTable{db.events, db.alerts}
	db.cfg.Schema = []string{CassandraSchema}
	db.cfg.Logger = log
	if db.cfg.StartWait == 0 {
		db.cfg.StartWait = wait
	}
	return db, nil
}

func (db *cassandraDB) Migrate(ctx context.Context) error { return cassandra.Migrate(ctx, db.cfg) }

func (db *cassandraDB) Run(ctx context.Context, source framework.Source, cfg framework.Config, observe func(*framework.Runner)) error {
	p, err := Pipeline(db.saveEvent, db.alerts.Insert)
	if err != nil {
		return err
	}
	sink, err := cassandra.Open(ctx, db.cfg)
	if err != nil {
		return err
	}
	err = run(ctx, p, source, sink, cfg, observe)
	return errors.Join(err, sink.Close(context.WithoutCancel(ctx)))
}

func (db *cassandraDB) saveEvent(e EventRow) cassandra.Write {
	return db.events.Insert(cassandraEvent{EventRow: e, Bucket: int32(e.Offset / bucketOffsets)})
}

func (db *cassandraDB) Read(ctx context.Context) (Reader, error) {
	sink, err := cassandra.Open(ctx, db.cfg)
	if err != nil {
		return nil, err
	}
	session, err := db.cluster().CreateSession()
	if err != nil {
		return nil, errors.Join(err, sink.Close(ctx))
	}
	return &cassandraReader{sink: sink, session: session}, nil
}

// cluster returns the settings of a session of our own, which reads what a
// quorum has acknowledged.
func (db *cassandraDB) cluster() *gocql.ClusterConfig {
	c := gocql.NewCluster(db.cfg.Hosts...)
	c.Keyspace = db.cfg.Keyspace
	c.Timeout = cassandraReadTimeout
	c.Consistency = gocql.Quorum
	if db.cfg.Consistency.DC() != "" {
		c.Consistency = gocql.LocalQuorum
	}
	if db.cfg.Username != "" {
		c.Authenticator = gocql.PasswordAuthenticator{Username: db.cfg.Username, Password: db.cfg.Password}
	}
	if db.cfg.TLS != nil {
		c.SslOpts = &gocql.SslOptions{Config: db.cfg.TLS, EnableHostVerification: !db.cfg.TLS.InsecureSkipVerify}
	}
	return c
}
