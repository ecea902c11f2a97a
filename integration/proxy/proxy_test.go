package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a server that calls handle for each connection, and returns its
// address.
func serve(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				handle(c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

func echo(c net.Conn) { _, _ = io.Copy(c, c) }

// through returns a proxy of target that is closed at the end without complaint.
func through(t *testing.T, made func(string) (*Proxy, error), target string) *Proxy {
	t.Helper()
	p, err := made(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := p.Dial(t.Context(), "tcp", "ignored:1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func send(t *testing.T, c net.Conn, message string) {
	t.Helper()
	if _, err := io.WriteString(c, message); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, c net.Conn, n int) string {
	t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(c, b); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// isBroken returns nil if the peer has ended the connection.
func isBroken(c net.Conn) error {
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, err := c.Read(make([]byte, 1))
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("the connection is still there")
	}
	return nil
}

func TestBytesPassUnchanged(t *testing.T) {
	p := through(t, TCP, serve(t, echo))
	c := dial(t, p)
	for _, message := range []string{"x", strings.Repeat("long ", 100_000)} {
		go func() { _, _ = io.WriteString(c, message) }()
		if got := receive(t, c, len(message)); got != message {
			t.Errorf("%d bytes came back changed", len(message))
		}
	}
}

func TestAStalledProxyAcceptsAndSaysNothingUntilItGoesOn(t *testing.T) {
	p := through(t, TCP, serve(t, echo))
	old := dial(t, p)
	send(t, old, "a")
	receive(t, old, 1)
	p.Stall()
	p.Stall()
	fresh := dial(t, p)
	for _, c := range []net.Conn{old, fresh} {
		send(t, c, "b")
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v, want silence", err)
		}
		_ = c.SetReadDeadline(time.Time{})
	}
	p.Resume()
	p.Resume()
	for _, c := range []net.Conn{old, fresh} {
		if got := receive(t, c, 1); got != "b" {
			t.Errorf("got %q after the stall", got)
		}
	}
}

func TestAStallBeginsWithTheRequestThatAskedForIt(t *testing.T) {
	p := through(t, TCP, serve(t, echo))
	asked := make(chan struct{}, 1)
	p.On(func(Request) Action {
		p.On(nil)
		asked <- struct{}{}
		return Stall
	})
	c := dial(t, p)
	send(t, c, "a")
	<-asked
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want silence", err)
	}
	got, err := make([]byte, 1), os.ErrDeadlineExceeded
	for errors.Is(err, os.ErrDeadlineExceeded) { // what asked for the stall may not have it yet
		p.Resume()
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		_, err = c.Read(got)
	}
	if err != nil || string(got) != "a" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestADelayCountsInBothDirections(t *testing.T) {
	const late = 30 * time.Millisecond
	p := through(t, TCP, serve(t, echo))
	c := dial(t, p)
	p.Delay(late)
	began := time.Now()
	send(t, c, "a")
	receive(t, c, 1)
	if took := time.Since(began); took < 2*late {
		t.Errorf("an answer came after %s, want %s at least", took, 2*late)
	}
}

func TestCutBreaksWhatThereIsAndRefuseWhatComes(t *testing.T) {
	p := through(t, TCP, serve(t, echo))
	c := dial(t, p)
	send(t, c, "a")
	receive(t, c, 1)
	p.Refuse(true)
	if err := isBroken(dial(t, p)); err != nil {
		t.Error("refused:", err)
	}
	send(t, c, "b")
	receive(t, c, 1)
	if n := p.Cut(); n != 1 {
		t.Errorf("%d connections were cut, want 1", n)
	}
	if err := isBroken(c); err != nil {
		t.Error("cut:", err)
	}
	p.Refuse(false)
	c = dial(t, p)
	send(t, c, "c")
	receive(t, c, 1)
}

func TestAServerThatIsDownLooksLikeThat(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	p := through(t, TCP, l.Addr().String())
	if err := isBroken(dial(t, p)); err != nil {
		t.Error(err)
	}
}

func TestRequestsOfAStreamCanBeDroppedAndCut(t *testing.T) {
	p := through(t, TCP, serve(t, echo))
	fates := make(chan Action, 3)
	p.On(func(Request) Action { return <-fates })
	c := dial(t, p)
	fates <- DropRequest
	fates <- Pass
	fates <- CutBefore
	send(t, c, "a")
	for len(fates) > 2 { // until it is taken, so that the next piece is one of its own
		time.Sleep(time.Millisecond)
	}
	send(t, c, "b")
	if got := receive(t, c, 1); got != "b" {
		t.Errorf("got %q, want the piece that was not dropped", got)
	}
	send(t, c, "c")
	if err := isBroken(c); err != nil {
		t.Error(err)
	}
}

func TestCloseEndsAStalledConnection(t *testing.T) {
	p, err := TCP(serve(t, echo))
	if err != nil {
		t.Fatal(err)
	}
	p.Stall()
	c := dial(t, p)
	send(t, c, "a")
	if err := errors.Join(p.Close(), p.Close()); err != nil {
		t.Error(err)
	}
	if err := isBroken(c); err != nil {
		t.Error(err)
	}
}
