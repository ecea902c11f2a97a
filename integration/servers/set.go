package servers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// closeTimeout bounds [Set.Close].
const closeTimeout = time.Minute

// Set is the servers that one [Start] brought up. A field is nil where its
// server was not asked for. The caller owns the set and must close it.
type Set struct {
	Kafka         *Service
	Cassandra     *Service
	CassandraAuth *Service
	Postgres      *Service

	// CassandraNodes are all nodes of Cassandra's cluster, Cassandra first.
	CassandraNodes []*Service

	host host
}

// host is where servers run: processes of this machine, or containers. Its
// methods but close may be called from several goroutines.
type host interface {
	kafka(context.Context) (launch, error)
	cassandra(context.Context, cassandraKind) ([]launch, error) // one a node, the seed first
	postgres(context.Context) (launch, error)
	close(context.Context) error // ends all, and removes what they wrote
}

// launch is a server that is ready to be started.
type launch struct {
	backend backend
	addr    string   // its host:port
	env     []string // what tests have to know beyond addr, NAME=value each
}

// Start brings up the servers that o asks for, all at the same time, and
// returns when each has answered. It downloads and installs what is missing.
// After an error, or when ctx ends before, nothing runs and nothing is left.
// The servers go on after ctx ends; [Set.Close] ends them.
func Start(ctx context.Context, o Options) (*Set, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	host, err := newHost(ctx, o)
	if err != nil {
		return nil, err
	}
	set := &Set{host: host}
	if err := set.startAll(ctx, o); err != nil {
		return nil, errors.Join(err, set.Close())
	}
	return set, nil
}

// newHost prefers Docker where an engine answers.
func newHost(ctx context.Context, o Options) (host, error) {
	if !o.Packages && dockerAnswers(ctx) {
		return newCompose(o)
	}
	return newPackages(ctx, o)
}

func (s *Set) startAll(ctx context.Context, o Options) error {
	all, ctx := errgroup.WithContext(ctx)
	if o.Kafka {
		all.Go(func() (err error) { s.Kafka, err = s.startKafka(ctx, o); return err })
	}
	if o.Cassandra {
		all.Go(func() error { return s.startCassandra(ctx, o) })
	}
	if o.CassandraAuth {
		all.Go(func() (err error) { s.CassandraAuth, err = s.startCassandraAuth(ctx, o); return err })
	}
	if o.Postgres {
		all.Go(func() (err error) { s.Postgres, err = s.startPostgres(ctx, o); return err })
	}
	return all.Wait()
}

func (s *Set) startKafka(ctx context.Context, o Options) (*Service, error) {
	l, err := s.host.kafka(ctx)
	if err != nil {
		return nil, err
	}
	return o.service(ctx, "kafka", l, kafkaReady)
}

func (s *Set) startCassandra(ctx context.Context, o Options) error {
	nodes, err := s.host.cassandra(ctx, o.cassandraKind(false))
	if err != nil {
		return err
	}
	s.CassandraNodes = make([]*Service, len(nodes))
	if s.Cassandra, err = o.service(ctx, "cassandra", nodes[0], cassandraReady); err != nil {
		return err
	}
	s.CassandraNodes[0] = s.Cassandra
	others, ctx := errgroup.WithContext(ctx)
	for i, l := range nodes[1:] {
		others.Go(func() (err error) {
			s.CassandraNodes[i+1], err = o.service(ctx, fmt.Sprintf("cassandra-%d", i+2), l, ringReady(len(nodes)))
			return err
		})
	}
	return others.Wait()
}

func (s *Set) startCassandraAuth(ctx context.Context, o Options) (*Service, error) {
	nodes, err := s.host.cassandra(ctx, o.cassandraKind(true))
	if err != nil {
		return nil, err
	}
	return o.service(ctx, "cassandra-auth", nodes[0], cassandraAuthReady)
}

func (s *Set) startPostgres(ctx context.Context, o Options) (*Service, error) {
	l, err := s.host.postgres(ctx)
	if err != nil {
		return nil, err
	}
	return o.service(ctx, "postgres", l, postgresReady)
}

// service wraps l and starts it.
func (o Options) service(ctx context.Context, name string, l launch, ready func(context.Context, string) error) (*Service, error) {
	s := &Service{name: name, addr: l.addr, env: l.env, timeout: o.StartTimeout, log: o.Logger, ready: ready, backend: l.backend}
	return s, s.Start(ctx)
}

// Close kills every server of the set and removes all that they wrote. It
// returns when nothing of them is left; calling it again changes nothing.
func (s *Set) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return s.host.close(ctx)
}

// Env returns the environment, NAME=value each, by which [Kafka], [Cassandra]
// and the functions like them find the set's servers.
func (s *Set) Env() []string {
	var env []string
	for _, v := range []struct {
		name    string
		service *Service
	}{{EnvKafka, s.Kafka}, {EnvCassandra, s.Cassandra}, {EnvCassandraAuth, s.CassandraAuth}, {EnvPostgres, s.Postgres}} {
		if v.service != nil {
			env = append(append(env, v.name+"="+v.service.Addr()), v.service.env...)
		}
	}
	return env
}
