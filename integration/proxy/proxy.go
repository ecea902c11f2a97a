package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy passes connections on to one server. Make it with [CQL], [Kafka] or
// [TCP]; it must be closed. All methods may be called from several goroutines.
type Proxy struct {
	listener net.Listener
	target   string
	newWire  func() wire // how messages are told apart on one pair of connections
	decide   atomic.Pointer[func(Request) Action]
	delay    atomic.Int64 // nanoseconds
	gate     gate
	wg       sync.WaitGroup

	mu      sync.Mutex
	links   map[*link]struct{}
	refuses bool
	failed  error // the first message that could not be understood
}

// TCP returns a proxy that knows nothing of what passes: [Proxy.On] is asked about
// every piece of a stream that comes from the client.
func TCP(target string) (*Proxy, error) {
	return start(target, func() wire { return raw{} })
}

func start(target string, newWire func() wire) (*Proxy, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &Proxy{listener: l, target: target, newWire: newWire, links: map[*link]struct{}{}}
	p.gate.pass = closedChannel()
	p.On(nil)
	p.wg.Go(p.accept)
	return p, nil
}

// Addr returns the host:port that clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Dial connects to the proxy, whatever the address.
func (p *Proxy) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, p.Addr())
}

// On has decide asked about every request from now on, nil passes all. It is
// called by one goroutine for each connection, in the order of the requests, and
// must not block for long.
func (p *Proxy) On(decide func(Request) Action) {
	if decide == nil {
		decide = func(Request) Action { return Pass }
	}
	p.decide.Store(&decide)
}

// Stall holds back everything from now on. Connections are still accepted.
func (p *Proxy) Stall() { p.gate.shut() }

// Resume passes on what [Proxy.Stall] held back, and all that follows.
func (p *Proxy) Resume() { p.gate.open() }

// Delay makes every message from now on d late, in each direction, one after the
// other.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Cut breaks all connections there are now, and returns how many.
func (p *Proxy) Cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
	return len(p.links)
}

// Refuse says whether new connections are broken as soon as they are made. Those
// there are stay.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = refuse
}

// Close breaks everything and returns when no goroutine is left. The error says
// what passed and was not understood, if anything.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	p.Refuse(true)
	p.Cut()
	p.wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(err, p.failed)
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.wg.Go(func() { p.connect(client) })
	}
}

// connect serves one connection until it breaks.
func (p *Proxy) connect(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil { // the server is down: so are we
		_ = client.Close()
		return
	}
	l := newLink(p, client, server)
	if !p.join(l) {
		l.cut()
		return
	}
	l.serve()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

func (p *Proxy) join(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.refuses {
		p.links[l] = struct{}{}
	}
	return !p.refuses
}

// fail remembers the first message that was not understood.
func (p *Proxy) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil {
		p.failed = fmt.Errorf("proxy: %w", err)
	}
}

// gate is open or shut.
type gate struct {
	mu   sync.Mutex
	pass chan struct{} // closed while the gate is open
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !isClosed(g.pass) {
		close(g.pass)
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if isClosed(g.pass) {
		g.pass = make(chan struct{})
	}
}

// wait returns true when the gate is open, false if done comes first.
func (g *gate) wait(done <-chan struct{}) bool {
	g.mu.Lock()
	pass := g.pass
	g.mu.Unlock()
	select {
	case <-pass:
		return true
	case <-done:
		return false
	}
}
