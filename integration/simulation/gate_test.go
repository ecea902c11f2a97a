package simulation

import (
	"context"
	"errors"
	"net"
	"sync"
)

// errKilled is what the dead see of the world.
var errKilled = errors.New("the process was killed")

// gate is where every step of a process that others can see has to pass. A paused
// process waits there; a killed one never passes again.
type gate struct {
	mu     sync.Mutex
	open   chan struct{} // closed while the process may run
	killed chan struct{}
	once   sync.Once // closes killed
	conns  map[net.Conn]struct{}
	cutOff bool // the network is down for this process
}

func newGate() *gate {
	g := &gate{open: make(chan struct{}), killed: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	close(g.open)
	return g
}

// pass returns when the process may go on, or errKilled. It does not look at any
// context: a paused process does not notice that one has ended either.
func (g *gate) pass() error {
	for {
		g.mu.Lock()
		open := g.open
		g.mu.Unlock()
		select {
		case <-g.killed:
			return errKilled
		default:
		}
		select {
		case <-open:
			if g.isOpen(open) {
				return nil
			}
		case <-g.killed:
			return errKilled
		}
	}
}

func (g *gate) isOpen(seen chan struct{}) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open == seen
}

func (g *gate) paused() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
		return false
	default:
		return true
	}
}

// pause stops the process until resume, like SIGSTOP.
func (g *gate) pause() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

// resume lets it go on, like SIGCONT.
func (g *gate) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.open)
}

// kill ends the process as far as the world can see: nothing it does arrives any
// more.
func (g *gate) kill() {
	g.once.Do(func() { close(g.killed) })
	g.cut()
}

// cut breaks every connection of the process; it may dial again.
func (g *gate) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.conns {
		_ = c.Close()
	}
	clear(g.conns)
}

// isolate takes the network away, or gives it back.
func (g *gate) isolate(down bool) {
	g.mu.Lock()
	g.cutOff = down
	g.mu.Unlock()
	if down {
		g.cut()
	}
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dialer returns a dial whose connections pass the gate with every read and write.
func (g *gate) dialer(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if err := g.pass(); err != nil {
			return nil, err
		}
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.cutOff {
			_ = c.Close()
			return nil, errors.New("network is unreachable")
		}
		g.conns[c] = struct{}{}
		return &gatedConn{Conn: c, gate: g}, nil
	}
}

type gatedConn struct {
	net.Conn
	gate *gate
}

// Read hands over what has arrived once the process runs.
func (c *gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if killed := c.gate.pass(); killed != nil {
		return 0, killed
	}
	return n, err
}

func (c *gatedConn) Write(b []byte) (int, error) {
	if err := c.gate.pass(); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

func (c *gatedConn) Close() error {
	c.gate.mu.Lock()
	delete(c.gate.conns, c.Conn)
	c.gate.mu.Unlock()
	return c.Conn.Close()
}
