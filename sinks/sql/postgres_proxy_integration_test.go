//go:build integration

package sql_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// fate is what happens to a statement of a client.
type fate uint8

const (
	pass      fate = iota
	cutBefore      // the connection breaks, and the server never sees it
	cutAfter       // the connection breaks when the server has answered, and the answer is lost
	freeze         // the server never sees it, and hears nothing more from this client
)

// pgProxy stands between a sink and PostgreSQL, and knows just enough of the
// protocol to see the statements that are sent as text, such as COMMIT.
type pgProxy struct {
	listener net.Listener
	target   string

	mu     sync.Mutex
	choose func(statement string) fate
	conns  []net.Conn
	wg     sync.WaitGroup
}

func startProxy(t *testing.T, target string) *pgProxy {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &pgProxy{listener: l, target: target, choose: func(string) fate { return pass }}
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

func (p *pgProxy) addr() string { return p.listener.Addr().String() }

// on decides from now on what happens to statements.
func (p *pgProxy) on(choose func(statement string) fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.choose = choose
}

func (p *pgProxy) fateOf(statement string) fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.choose(statement)
}

func (p *pgProxy) keep(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, c)
}

func (p *pgProxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp4", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.keep(client)
		p.keep(server)
		l := &link{proxy: p, client: client, server: server}
		p.wg.Go(l.up)
		p.wg.Go(l.down)
	}
}

// link is one connection through the proxy.
type link struct {
	proxy          *pgProxy
	client, server net.Conn

	mu   sync.Mutex
	deaf bool // the next answer of the server is lost, and the connection with it
}

func (l *link) close() { l.client.Close(); l.server.Close() }

// up passes messages to the server: the first has no type, all others have one.
func (l *link) up() {
	defer l.close()
	if err := l.copyMessage(0); err != nil {
		return
	}
	for l.copyMessage(1) == nil {
	}
}

var errCut = errors.New("cut")

// copyData stands for a statement where rows of a COPY are sent.
const copyData = "rows of a COPY"

func statementOf(head, body []byte) string {
	switch {
	case len(head) == 5 && head[0] == 'Q':
		return strings.TrimRight(string(body), "\x00")
	case len(head) == 5 && head[0] == 'd':
		return copyData
	}
	return ""
}

func (l *link) copyMessage(typeBytes int) error {
	head := make([]byte, typeBytes+4)
	if _, err := io.ReadFull(l.client, head); err != nil {
		return err
	}
	body := make([]byte, int(binary.BigEndian.Uint32(head[typeBytes:]))-4)
	if _, err := io.ReadFull(l.client, body); err != nil {
		return err
	}
	if statement := statementOf(head, body); statement != "" {
		switch l.proxy.fateOf(statement) {
		case cutBefore:
			return errCut
		case cutAfter:
			l.mu.Lock()
			l.deaf = true
			l.mu.Unlock()
		case freeze:
			_, err := io.Copy(io.Discard, l.client) // until the client gives up
			return errors.Join(errCut, err)
		}
	}
	_, err := l.server.Write(append(head, body...))
	return err
}

// down passes everything to the client.
func (l *link) down() {
	defer l.close()
	buf := make([]byte, 32<<10)
	for {
		n, err := l.server.Read(buf)
		l.mu.Lock()
		deaf := l.deaf
		l.mu.Unlock()
		if err != nil || deaf {
			return
		}
		if _, err := l.client.Write(buf[:n]); err != nil {
			return
		}
	}
}
