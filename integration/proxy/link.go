package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// wire tells messages apart. It belongs to one link; request and answer are
// called by a goroutine each.
type wire interface {
	read(*bufio.Reader) ([]byte, error)                 // one message, whole
	request(message []byte) (Request, uint64, error)    // and the number that its answer carries
	answer(message []byte) (number uint64, known error) // the number of the request that it answers
	forge(request []byte, a Answer) []byte              // a as the answer to request
	renumber(request []byte) (again []byte, n uint64)   // request under a number that no client uses soon
}

// unknown wraps what a wire cannot understand, apart from a connection that ends.
type unknown struct{ error }

// link is one connection of a client and the one to the server that belongs to it.
type link struct {
	p              *Proxy
	wire           wire
	client, server net.Conn
	done           chan struct{}
	cut            func()

	mu      sync.Mutex
	fates   map[uint64]outcome // of answers that are still to come
	writing sync.Mutex         // of the client's connection
	sending sync.Mutex         // of the server's
}

// outcome is what becomes of an answer.
type outcome struct {
	fate    fate
	forged  []byte        // what is sent in its place
	arrived chan struct{} // closed when it comes, if not nil
}

func newLink(p *Proxy, client, server net.Conn) *link {
	l := &link{p: p, wire: p.newWire(), client: client, server: server, done: make(chan struct{}), fates: map[uint64]outcome{}}
	l.cut = sync.OnceFunc(func() {
		close(l.done)
		_ = client.Close()
		_ = server.Close()
	})
	return l
}

// serve returns when both directions have ended; one that ends takes the other
// with it.
func (l *link) serve() {
	var both sync.WaitGroup
	both.Go(func() { l.run(l.client, l.passRequest) })
	both.Go(func() { l.run(l.server, l.passAnswer) })
	both.Wait()
}

// run hands every message of one direction to pass until that returns an error.
func (l *link) run(from net.Conn, passOn func([]byte) error) {
	defer l.cut()
	in := bufio.NewReaderSize(from, 64<<10)
	for {
		message, err := l.wire.read(in)
		if err == nil && l.hold() {
			err = passOn(message)
		}
		var strange unknown
		if errors.As(err, &strange) {
			l.p.fail(err)
		}
		if err != nil || isClosed(l.done) {
			return
		}
	}
}

// hold waits as long as the proxy is stalled or late, and reports whether the link
// is still there.
func (l *link) hold() bool {
	if d := time.Duration(l.p.delay.Load()); d > 0 {
		select {
		case <-time.After(d):
		case <-l.done:
			return false
		}
	}
	return l.p.gate.wait(l.done)
}

var errCut = errors.New("cut")

func (l *link) passRequest(message []byte) error {
	request, number, err := l.wire.request(message)
	if err != nil {
		return err
	}
	action := (*l.p.decide.Load())(request)
	switch action.fate {
	case cutBefore:
		return errCut
	case dropRequest:
		return nil
	case stall:
		l.p.Stall()
		if !l.hold() {
			return errCut
		}
	case forge:
		return l.write(l.wire.forge(message, *action.forged))
	case later:
		l.p.wg.Go(func() { l.passLater(message, action) })
		return l.write(l.wire.forge(message, *action.forged))
	case replace:
		l.plan(number, outcome{fate: replace, forged: l.wire.forge(message, *action.forged)})
	case dropAnswer, cutAfter:
		l.plan(number, outcome{fate: action.fate})
	}
	return l.send(message)
}

// passLater sends the request when its time has come. The client may have used its
// number again by then, so it gets another.
func (l *link) passLater(message []byte, action Action) {
	select {
	case <-action.when:
	case <-l.done:
		return
	}
	again, number := l.wire.renumber(message)
	l.plan(number, outcome{fate: dropAnswer, arrived: action.arrived})
	if err := l.send(again); err != nil {
		l.cut()
	}
}

func (l *link) passAnswer(message []byte) error {
	number, err := l.wire.answer(message)
	if err != nil {
		return err
	}
	planned := l.planned(number)
	if planned.arrived != nil {
		close(planned.arrived)
	}
	switch planned.fate {
	case dropAnswer:
		return nil
	case cutAfter:
		return errCut
	case replace:
		return l.write(planned.forged)
	default:
		return l.write(message)
	}
}

// plan is called before the request is passed on, so before its answer comes.
func (l *link) plan(number uint64, o outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fates[number] = o
}

func (l *link) planned(number uint64) outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.fates[number]
	delete(l.fates, number)
	return o
}

func (l *link) send(message []byte) error {
	l.sending.Lock()
	defer l.sending.Unlock()
	_, err := l.server.Write(message)
	return err
}

func (l *link) write(message []byte) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	_, err := l.client.Write(message)
	return err
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func closedChannel() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// raw is a stream of bytes: a message is what a read returns.
type raw struct{}

// noNumber belongs to no answer.
const noNumber = ^uint64(0)

func (raw) read(in *bufio.Reader) ([]byte, error) {
	piece := make([]byte, 64<<10)
	n, err := in.Read(piece)
	return piece[:n], err
}

func (raw) request([]byte) (Request, uint64, error) { return Request{}, noNumber, nil }
func (raw) answer([]byte) (uint64, error)           { return noNumber - 1, nil }
func (raw) forge([]byte, Answer) []byte             { return nil }
func (raw) renumber(m []byte) ([]byte, uint64)      { return m, noNumber }

// readSized reads a message of a header that says how many bytes follow it.
func readSized(in *bufio.Reader, header int, size func(header []byte) int) ([]byte, error) {
	head, err := in.Peek(header)
	if err != nil {
		return nil, err
	}
	n := size(head)
	if n < 0 || n > maxMessage {
		return nil, unknown{errors.New("a message's size makes no sense: is this the protocol that the proxy was made for?")}
	}
	message := make([]byte, header+n)
	_, err = io.ReadFull(in, message)
	return message, err
}

// maxMessage is more than either server accepts.
const maxMessage = 256 << 20
