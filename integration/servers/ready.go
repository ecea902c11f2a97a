package servers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"time"

	"github.com/gocql/gocql"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// askTimeout bounds one question to a server that is starting.
const askTimeout = 10 * time.Second

// kafkaReady returns nil if the broker serves metadata and makes a topic.
func kafkaReady(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := listens(ctx, addr); err != nil {
		return err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return err
	}
	defer client.Close()
	return makeTopic(ctx, kadm.NewClient(client))
}

func makeTopic(ctx context.Context, admin *kadm.Client) error {
	topic := fmt.Sprintf("lockstep-ready-%x", rand.Uint64())
	if _, err := admin.CreateTopic(ctx, 1, 1, nil, topic); err != nil {
		return err
	}
	_, err := admin.DeleteTopic(ctx, topic)
	return err
}

// cassandraReady answers for a node that accepts every login.
func cassandraReady(ctx context.Context, addr string) error {
	return cassandraAnswers(ctx, addr, nil)
}

// cassandraAuthReady answers for a node that checks user and password: it is
// ready when its superuser exists.
func cassandraAuthReady(ctx context.Context, addr string) error {
	return cassandraAnswers(ctx, addr, gocql.PasswordAuthenticator{Username: AuthUser, Password: AuthPassword})
}

// cassandraAnswers returns nil if the node opens a CQL session and answers a
// query.
func cassandraAnswers(ctx context.Context, addr string, login gocql.Authenticator) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := listens(ctx, addr); err != nil {
		return err
	}
	config, err := oneNode(addr, login)
	if err != nil {
		return err
	}
	session, err := config.CreateSession()
	if err != nil {
		return err
	}
	defer session.Close()
	return session.Query("SELECT release_version FROM system.local").WithContext(ctx).Exec()
}

// postgresReady returns nil if the server lets its superuser in.
func postgresReady(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", PostgresUser, PostgresPassword, addr, PostgresDatabase))
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// ringReady returns what answers for a node that must know all of n nodes.
func ringReady(n int) func(context.Context, string) error {
	return func(ctx context.Context, addr string) error {
		if err := cassandraReady(ctx, addr); err != nil {
			return err
		}
		config, err := oneNode(addr, nil)
		if err != nil {
			return err
		}
		session, err := config.CreateSession()
		if err != nil {
			return err
		}
		defer session.Close()
		var peers int
		if err := session.Query("SELECT COUNT(*) FROM system.peers_v2").WithContext(ctx).Scan(&peers); err != nil {
			return err
		}
		if peers != n-1 {
			return fmt.Errorf("it knows %d other nodes, not yet %d", peers, n-1)
		}
		return nil
	}
}

// oneNode configures a session of a single connection to a single node.
func oneNode(addr string, login gocql.Authenticator) (*gocql.ClusterConfig, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	config := gocql.NewCluster(host)
	if config.Port, err = strconv.Atoi(port); err != nil {
		return nil, err
	}
	config.NumConns = 1
	config.DisableInitialHostLookup = true
	config.ConnectTimeout, config.Timeout = askTimeout, askTimeout
	config.Consistency = gocql.One
	config.Authenticator = login
	config.Logger = silent{}
	return config, nil
}

// silent drops what the driver says about a node that is still starting.
type silent struct{}

func (silent) Print(...any)          {}
func (silent) Printf(string, ...any) {}
func (silent) Println(...any)        {}

// listens returns nil if somebody accepts connections at addr.
func listens(ctx context.Context, addr string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}
