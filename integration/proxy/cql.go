package proxy

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
)

var errShort = errors.New("a message is too short: is this the protocol that the proxy was made for?")

// CQL returns a proxy of a Cassandra node.
func CQL(target string) (*Proxy, error) {
	prepared := &statements{byID: map[string]string{}}
	return start(target, func() wire { return &cqlWire{prepared: prepared, asked: map[uint64]string{}} })
}

// statements are those that were prepared, on whatever connection: a node has one
// identifier for a statement, and drivers use it on all of them.
type statements struct {
	mu   sync.Mutex
	byID map[string]string
}

func (s *statements) put(id, statement string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[id] = statement
}

func (s *statements) get(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

// cqlWire is the native protocol: version, flags, stream (2 bytes), opcode, length
// (4), body.
type cqlWire struct {
	prepared *statements

	mu    sync.Mutex
	asked map[uint64]string // statements being prepared, by stream
}

const cqlHeader = 9

const (
	opError   = 0x00
	opQuery   = 0x07
	opResult  = 0x08
	opPrepare = 0x09
	opExecute = 0x0A
	opBatch   = 0x0D
)

var opcodes = map[byte]string{
	0x01: "STARTUP", 0x05: "OPTIONS", opQuery: "QUERY", opPrepare: "PREPARE",
	opExecute: "EXECUTE", 0x0B: "REGISTER", opBatch: "BATCH", 0x0F: "AUTH_RESPONSE",
}

const (
	flagCompressed = 0x01
	flagTracing    = 0x02
	flagPayload    = 0x04
	flagWarning    = 0x08
)

func (*cqlWire) read(in *bufio.Reader) ([]byte, error) {
	m, err := readSized(in, cqlHeader, func(h []byte) int { return int(int32(binary.BigEndian.Uint32(h[5:]))) })
	if err != nil {
		return nil, err
	}
	if v := m[0] & 0x7f; v != 3 && v != 4 {
		return nil, unknown{fmt.Errorf("CQL protocol version %d: only 3 and 4 are understood", v)}
	}
	if m[1]&flagCompressed != 0 {
		return nil, unknown{errors.New("a compressed CQL frame: switch compression off in the client")}
	}
	return m, nil
}

func (w *cqlWire) request(m []byte) (Request, uint64, error) {
	number := streamOf(m)
	body := body{rest: m[cqlHeader:]}
	body.skipExtras(m[1] &^ flagTracing) // of a request tracing is only asked for
	r := Request{Kind: opcodes[m[4]]}
	switch m[4] {
	case opQuery, opPrepare:
		r.Statement = string(body.long())
	case opExecute:
		r.Statement = w.prepared.get(string(body.short()))
	case opBatch:
		r.Statement = w.firstOf(&body)
	}
	if body.bad {
		return r, 0, unknown{fmt.Errorf("CQL %s: %w", r.Kind, errShort)}
	}
	if m[4] == opPrepare {
		w.mu.Lock()
		w.asked[number] = r.Statement
		w.mu.Unlock()
	}
	return r, number, nil
}

// firstOf returns the first statement of a batch.
func (w *cqlWire) firstOf(b *body) string {
	b.take(1) // kind of batch
	if n := b.take(2); len(n) < 2 || binary.BigEndian.Uint16(n) == 0 {
		return ""
	}
	if kind := b.take(1); len(kind) == 1 && kind[0] == 0 {
		return string(b.long())
	}
	return w.prepared.get(string(b.short()))
}

// answer learns the identifiers of prepared statements.
func (w *cqlWire) answer(m []byte) (uint64, error) {
	number := streamOf(m)
	w.mu.Lock()
	statement, asked := w.asked[number]
	delete(w.asked, number)
	w.mu.Unlock()
	if !asked || m[4] != opResult {
		return number, nil
	}
	body := body{rest: m[cqlHeader:]}
	body.skipExtras(m[1])
	const prepared = 4
	if kind := body.take(4); len(kind) == 4 && binary.BigEndian.Uint32(kind) == prepared {
		w.prepared.put(string(body.short()), statement)
	}
	if body.bad {
		return 0, unknown{fmt.Errorf("CQL RESULT: %w", errShort)}
	}
	return number, nil
}

func (*cqlWire) forge(request []byte, a Answer) []byte {
	m := make([]byte, cqlHeader, cqlHeader+len(a.body))
	m[0] = request[0] | 0x80
	copy(m[2:4], request[2:4])
	m[4] = a.opcode
	binary.BigEndian.PutUint32(m[5:], uint32(len(a.body)))
	return append(m, a.body...)
}

func (*cqlWire) renumber(m []byte) ([]byte, uint64) {
	const unused = 1<<15 - 1 // the last one; drivers have thousands to choose from
	again := bytes.Clone(m)
	binary.BigEndian.PutUint16(again[2:], unused)
	return again, unused
}

func streamOf(m []byte) uint64 { return uint64(binary.BigEndian.Uint16(m[2:])) }

// body is read from front to back.
type body struct {
	rest []byte
	bad  bool // it ended too early
}

func (b *body) take(n int) []byte {
	if n < 0 || n > len(b.rest) {
		b.bad = true
		return nil
	}
	taken := b.rest[:n]
	b.rest = b.rest[n:]
	return taken
}

// short is [short bytes] or [string], long is [long string].
func (b *body) short() []byte { return b.take(b.number(2)) }
func (b *body) long() []byte  { return b.take(b.number(4)) }

func (b *body) number(bytes int) (n int) {
	for _, c := range b.take(bytes) {
		n = n<<8 | int(c)
	}
	return n
}

// skipExtras skips what stands before the body proper.
func (b *body) skipExtras(flags byte) {
	if flags&flagTracing != 0 {
		b.take(16)
	}
	if flags&flagWarning != 0 {
		for range b.number(2) {
			b.short()
		}
	}
	if flags&flagPayload != 0 {
		for range b.number(2) {
			b.short()
			b.long()
		}
	}
}
