//go:build integration

package cassandra

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
)

// nameServer answers every question for an address with one that a test can change.
type nameServer struct {
	conn    net.PacketConn
	address atomic.Value // string
}

// asked is the name server of the test that runs, if it has one. The resolver itself
// is never replaced once tests run: sessions of earlier ones may still be asking it.
var asked atomic.Pointer[nameServer]

func init() {
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if s := asked.Load(); s != nil {
			network, address = "udp4", s.conn.LocalAddr().String()
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
}

func newNameServer(t *testing.T) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{conn: conn}
	var ended sync.WaitGroup
	ended.Go(s.serve)
	asked.Store(s)
	t.Cleanup(func() {
		asked.Store(nil)
		_ = conn.Close()
		ended.Wait()
	})
	return s
}

func (s *nameServer) serve() {
	buf := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		_, _ = s.conn.WriteTo(s.answer(buf[:n]), from)
	}
}

// answer repeats the question and, if it is for an IPv4 address, adds one record.
func (s *nameServer) answer(q []byte) []byte {
	end := 12
	for q[end] != 0 {
		end += int(q[end]) + 1
	}
	kind := binary.BigEndian.Uint16(q[end+1:])
	a := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, q[12:end+5]...)
	if kind == 1 {
		a[7] = 1
		a = append(a, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		a = append(a, net.ParseIP(s.address.Load().(string)).To4()...)
	}
	return a
}

// door forwards connections to a server until it is shut. The server seems to be
// where the door is: so it says itself, when the driver asks for its addresses.
type door struct {
	address  net.IP
	listener net.Listener
	ended    sync.WaitGroup
	mu       sync.Mutex
	open     []net.Conn
	shutting bool
}

func openDoor(t *testing.T, addr, target string) *door {
	t.Helper()
	l, err := net.Listen("tcp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	d := &door{listener: l, address: l.Addr().(*net.TCPAddr).IP.To4()}
	d.ended.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp4", target)
			if err != nil {
				_ = in.Close()
				continue
			}
			d.join(in, out)
		}
	})
	t.Cleanup(d.shut)
	return d
}

func (d *door) join(in, out net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = append(d.open, in, out)
	if d.shutting {
		_, _ = in.Close(), out.Close()
	}
	end := func() { _, _ = in.Close(), out.Close() }
	d.ended.Go(func() { defer end(); _, _ = io.Copy(out, in) })
	d.ended.Go(func() { defer end(); d.answers(in, out) })
}

// answers copies what the server says, with another address in place of its own.
func (d *door) answers(to io.Writer, from io.Reader) {
	inet := func(ip net.IP) []byte { return append([]byte{0, 0, 0, 4}, ip.To4()...) } // as CQL has it
	own, seeming := inet(net.IPv4(127, 0, 0, 1)), inet(d.address)
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if _, failed := to.Write(bytes.ReplaceAll(buf[:n], own, seeming)); err != nil || failed != nil {
			return
		}
	}
}

func (d *door) shut() {
	d.mu.Lock()
	d.shutting = true
	_ = d.listener.Close()
	for _, c := range d.open {
		_ = c.Close()
	}
	d.mu.Unlock()
	d.ended.Wait()
}

// A node that comes back at another address under its name, as containers do, is
// found again: by the sink that is open, without a restart.
func TestNodeThatComesBackAtAnotherAddressIsFoundByItsName(t *testing.T) {
	b := newBed(t)
	names := newNameServer(t)
	names.address.Store("127.0.0.1")
	first := openDoor(t, "127.0.0.1:0", b.cfg.Hosts[0])
	_, port, err := net.SplitHostPort(first.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	cfg := *b.cfg
	cfg.Hosts = []string{net.JoinHostPort("node.lockstep.example", port)}
	s, _ := b.sink(cfg, defaultTuning())
	c := b.claim(s)
	mustSave(t, c, logBatch(0, 3, "v"))

	first.shut()
	if err := s.Health(t.Context()); err == nil {
		t.Error("a node that nobody can reach is healthy")
	}
	openDoor(t, net.JoinHostPort("127.0.0.2", port), b.cfg.Hosts[0])
	names.address.Store("127.0.0.2")
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	began := time.Now()
	for err := s.Health(ctx); err != nil; err = s.Health(ctx) {
		if ctx.Err() != nil {
			t.Fatalf("the node was not found again: %v", err)
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Logf("found again after %v", time.Since(began).Round(time.Second))
	// What is at the new address may not be what was at the old one.
	wantSaveError(t, c.Save(t.Context(), logBatch(3, 5, "v")), framework.NotSaved, true, framework.ErrUnavailable)
	mustSave(t, b.claim(s), logBatch(3, 5, "v"))
	b.wantRows(5, "v")
}
