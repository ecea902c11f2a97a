//go:build integration

package cassandra

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy stands between the driver and the server, and breaks one connection when
// told to.
type proxy struct {
	listener net.Listener
	target   string
	armed    atomic.Int32 // what happens to the next request
	cuts     atomic.Int32
	wg       sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
}

const (
	forward int32 = iota
	dropRequest
	dropAnswer
)

func newProxy(t *testing.T, target string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// cut breaks the connection of the next request: after the server has answered it,
// or before it is forwarded.
func (p *proxy) cut(afterAnswer bool) {
	if afterAnswer {
		p.armed.Store(dropAnswer)
	} else {
		p.armed.Store(dropRequest)
	}
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		var answerDropped atomic.Bool
		p.wg.Go(func() { p.requests(client, server, &answerDropped) })
		p.wg.Go(func() { p.answers(server, client, &answerDropped) })
	}
}

// requests forwards from the driver to the server.
func (p *proxy) requests(client, server net.Conn, dropped *atomic.Bool) {
	defer server.Close()
	defer client.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		switch p.armed.Swap(forward) {
		case dropRequest:
			p.cuts.Add(1)
			return
		case dropAnswer:
			dropped.Store(true)
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// answers forwards from the server to the driver, until an answer is to be
// dropped: then the server has done its work and the driver never learns of it.
func (p *proxy) answers(server, client net.Conn, dropped *atomic.Bool) {
	defer server.Close()
	defer client.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		if dropped.Load() {
			p.cuts.Add(1)
			return
		}
		if _, err := client.Write(buf[:n]); err != nil && err != io.EOF {
			return
		}
	}
}
