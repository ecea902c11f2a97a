package cassandra

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"github.com/lockstep-stream/lockstep/framework"
)

// links are the connections of a sink, of which it counts those that have ended.
//
// A node that is killed may have forgotten what it had acknowledged: by default
// Cassandra writes its commit log to disk later. Where no other node has a copy, what
// a claim knows of the ledger and of the tables is ahead of both then. What is
// forgotten is the end of a log, so whoever claims anew finds a state that was
// there before, and goes on from that. A node that dies ends its connections; so a claim
// trusts its knowledge as long as none has ended since it was begun.
type links struct {
	dialer net.Dialer
	ended  atomic.Int64
}

// errForgotten: a connection has ended since the claim was begun.
var errForgotten = fmt.Errorf("%w: a connection to Cassandra has ended, and the node may have forgotten what it had acknowledged: the partition has to be claimed again", framework.ErrUnavailable)

// count returns how many connections have ended. A nil links has none.
func (l *links) count() int64 {
	if l == nil {
		return 0
	}
	return l.ended.Load()
}

// trust returns nil while no connection has ended since count returned since.
func (l *links) trust(since int64) error {
	if l.count() != since {
		return errForgotten
	}
	return nil
}

// DialContext implements gocql.Dialer.
func (l *links) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := l.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &link{Conn: c, ended: sync.OnceFunc(func() { l.ended.Add(1) })}, nil
}

// link is one connection.
type link struct {
	net.Conn
	ended func()
}

// Read counts the end before anybody is told of it: what waits for an answer is
// sent again over another connection.
func (l *link) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		l.ended()
	}
	return n, err
}

// Close implements net.Conn.
func (l *link) Close() error {
	l.ended()
	return l.Conn.Close()
}
