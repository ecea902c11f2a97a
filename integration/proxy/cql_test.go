package proxy

import (
	"bufio"
	"encoding/binary"
	"net"
	"slices"
	"strings"
	"testing"
)

// frame makes one of version 4.
func frame(opcode, flags byte, stream uint16, parts ...[]byte) []byte {
	body := slices.Concat(parts...)
	m := []byte{4, flags}
	m = append(m, short(stream)...)
	m = append(m, opcode)
	m = append(m, long(uint32(len(body)))...)
	return append(m, body...)
}

func longText(s string) []byte { return append(long(uint32(len(s))), s...) }

// node answers PREPARE with the statement's text turned round as identifier, and
// everything else with an empty result whose stream tells which request it was.
func node(c net.Conn) {
	in, w := bufio.NewReader(c), &cqlWire{}
	for {
		m, err := w.read(in)
		if err != nil {
			return
		}
		answer := frame(opResult, 0, uint16(streamOf(m)), long(1))
		if m[4] == opPrepare {
			id := []byte(string(m[cqlHeader+4:]))
			slices.Reverse(id)
			// With tracing and a warning before the body.
			answer = frame(opResult, flagTracing|flagWarning, uint16(streamOf(m)),
				make([]byte, 16), short(1), text("old"), long(4), short(uint16(len(id))), id)
		}
		answer[0] |= 0x80
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// cqlClient sends frames and reads answers.
type cqlClient struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func newCQLClient(t *testing.T, p *Proxy) *cqlClient {
	c := dial(t, p)
	return &cqlClient{t, c, bufio.NewReader(c)}
}

func (c *cqlClient) send(frame []byte) {
	c.t.Helper()
	send(c.t, c.conn, string(frame))
}

func (c *cqlClient) answer() []byte {
	c.t.Helper()
	m, err := (&cqlWire{}).read(c.in)
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

func TestStatementsAreKnownWhereverTheyWerePrepared(t *testing.T) {
	p := through(t, CQL, serve(t, node))
	asked := make(chan Request, 10)
	p.On(func(r Request) Action { asked <- r; return Pass })
	first := newCQLClient(t, p)
	first.send(frame(opPrepare, 0, 1, longText("UPDATE t")))
	first.answer()
	second := newCQLClient(t, p)
	for _, f := range [][]byte{
		frame(opExecute, 0, 2, text("t ETADPU")),
		frame(opExecute, 0, 3, text("never prepared")),
		frame(opQuery, flagPayload, 4, short(1), text("k"), longText("v"), longText("SELECT 1")),
		frame(opBatch, 0, 5, []byte{1}, short(2), []byte{1}, text("t ETADPU")),
		frame(opBatch, 0, 6, []byte{1}, short(1), []byte{0}, longText("INSERT")),
	} {
		second.send(f)
		second.answer()
	}
	close(asked)
	var seen []Request
	for r := range asked {
		seen = append(seen, r)
	}
	want := []Request{{"PREPARE", "UPDATE t"}, {"EXECUTE", "UPDATE t"}, {"EXECUTE", ""}, {"QUERY", "SELECT 1"}, {"BATCH", "UPDATE t"}, {"BATCH", "INSERT"}}
	if !slices.Equal(seen, want) {
		t.Errorf("got %q\nwant %q", seen, want)
	}
}

func TestAnswersAreLostAndReplacedOneByOne(t *testing.T) {
	p := through(t, CQL, serve(t, node))
	fates := map[string]Action{"a": DropRequest, "b": DropAnswer, "c": Forge(CASUnknown()), "d": Replace(CASTimeout()), "e": Pass}
	p.On(func(r Request) Action { return fates[r.Statement] })
	c := newCQLClient(t, p)
	for stream, statement := range []string{"a", "b", "c", "d", "e"} {
		c.send(frame(opQuery, 0, uint16(stream), longText(statement)))
	}
	got := map[uint64]uint32{} // stream: code of the error, or 1
	for range 3 {
		m := c.answer()
		if m[0] != 0x84 {
			t.Errorf("an answer begins with %x", m[0])
		}
		got[streamOf(m)] = binary.BigEndian.Uint32(m[cqlHeader:])
	}
	if want := map[uint64]uint32{2: codeCASWriteUnknown, 3: codeWriteTimeout, 4: 1}; len(got) != 3 || got[2] != want[2] || got[3] != want[3] || got[4] != want[4] {
		t.Errorf("got %x, want %x", got, want)
	}
	// What became of one answer is not remembered for the next on its stream.
	p.On(nil)
	c.send(frame(opQuery, 0, 1, longText("b")))
	if m := c.answer(); streamOf(m) != 1 || m[4] != opResult {
		t.Errorf("got % x", m)
	}
}

// The number of a request that is late belongs to another by then.
func TestALateRequestArrivesAndItsAnswerIsLost(t *testing.T) {
	p := through(t, CQL, serve(t, node))
	when := make(chan struct{})
	late, arrived := Later(when, CASTimeout())
	p.On(func(r Request) Action {
		if r.Statement == "late" {
			return late
		}
		return Pass
	})
	c := newCQLClient(t, p)
	c.send(frame(opQuery, 0, 7, longText("late")))
	if m := c.answer(); m[4] != opError || streamOf(m) != 7 {
		t.Errorf("got % x", m)
	}
	if isClosed(arrived) {
		t.Error("it arrived before its time")
	}
	close(when)
	<-arrived
	for range 2 {
		c.send(frame(opQuery, 0, 7, longText("next")))
		if m := c.answer(); m[4] != opResult || streamOf(m) != 7 {
			t.Errorf("got % x", m)
		}
	}
}

func TestConnectionsAreCutBeforeAndAfterTheWork(t *testing.T) {
	worked := make(chan string, 2)
	p := through(t, CQL, serve(t, func(c net.Conn) {
		m, err := (&cqlWire{}).read(bufio.NewReader(c))
		if err != nil {
			return
		}
		worked <- string(m[cqlHeader+4:])
		_, _ = c.Write(frame(opResult, 0, 0, long(1)))
	}))
	p.On(func(r Request) Action {
		if r.Statement == "before" {
			return CutBefore
		}
		return CutAfter
	})
	for _, statement := range []string{"before", "after"} {
		c := newCQLClient(t, p)
		c.send(frame(opQuery, 0, 0, longText(statement)))
		if err := isBroken(c.conn); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
	if got := <-worked; got != "after" || len(worked) != 0 {
		t.Errorf("the server has worked on %q and %d more", got, len(worked))
	}
}

func TestWhatIsNotUnderstoodBreaksTheConnectionAndIsReported(t *testing.T) {
	for want, message := range map[string][]byte{
		"version 5":     {5, 0, 0, 0, opQuery, 0, 0, 0, 0},
		"compressed":    {4, flagCompressed, 0, 0, opQuery, 0, 0, 0, 0},
		"size":          []byte("GET / HTTP/1.1\r\n\r\n"),
		"is too short":  frame(opQuery, 0, 1, []byte{0, 0, 1, 0}),
		"CQL BATCH: a ": frame(opBatch, 0, 1, []byte{0}),
	} {
		p, err := CQL(serve(t, node))
		if err != nil {
			t.Fatal(err)
		}
		c := newCQLClient(t, p)
		c.send(message)
		if err := isBroken(c.conn); err != nil {
			t.Errorf("%s: %v", want, err)
		}
		if err := p.Close(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to contain %q", err, want)
		}
	}
}
