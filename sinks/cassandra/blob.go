package cassandra

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/s2"

	"github.com/lockstep-stream/lockstep/framework"
)

// The blob of one save, format 1. Numbers are uvarints unless a width is given;
// a string or byte string is its length and its bytes.
//
//	chunk   = "LKS" version(1 byte) codec(1 byte) payload
//	payload = base first count directory write…      compressed as codec says
//	base    = timestamp of the save's first write, µs
//	first   = number of the chunk's first write within the save
//	directory = n, then n × (name id(16 bytes) partition clustering columns, then columns × (name type))
//	write   = index into the directory, op, expires (Unix seconds or 0), row
//
// Chunks hold whole writes and a directory each, so each is decodable alone. The
// sum is SHA-256 over all chunks: it finds damage, and it is how a retry knows its
// own save from another.
const (
	blobMagic   = "LKS"
	blobVersion = 1
	blobHeader  = len(blobMagic) + 2

	codecNone = 0
	// codecS2 is S2 (compatible with Snappy). On rows of events it compresses
	// to 35% at 700 MB/s a core; zstd reaches 26%, at 200 MB/s.
	codecS2 = 1
)

// maxPayload bounds what a chunk may claim to decompress to, in bytes: above
// every single write a server accepts by default, and below what would hurt.
const maxPayload = 64 << 20

// blob is the encoded form of one save. One content, fixed once.
type blob struct {
	chunks [][]byte // each decodable on its own; in write order
	sum    []byte   // SHA-256 over all chunks, in order
	bytes  int      // their total length
}

// blobLimits bound what encodeBlob makes, in bytes.
type blobLimits struct {
	chunk int // a chunk; only a single larger write makes a larger one
	lone  int // a write above this travels alone and uncompressed
	total int // all chunks together
}

// binder finds the bound form of a target that the sink has checked.
type binder interface {
	bound(t *target) (*boundTarget, bool)
}

// encodeBlob encodes writes; write i has timestamp base+i. It also returns the
// mutations that decodeBlob would return, sharing the writes' rows. No writes
// give no chunks. More than lim.total wraps framework.ErrTooLarge.
func encodeBlob(ws []Write, base int64, tables binder, lim blobLimits) (blob, []mutation, error) {
	ms, err := mutations(ws, base, tables)
	if err != nil {
		return blob{}, nil, err
	}
	var b blob
	for first := 0; first < len(ms); {
		n := chunkLen(ms[first:], lim)
		c := encodeChunk(ms[first:first+n], base, first, ms[first].size() <= lim.lone)
		b.chunks = append(b.chunks, c)
		b.bytes += len(c)
		first += n
	}
	if b.bytes > lim.total {
		return blob{}, nil, fmt.Errorf("cassandra: the save's %d writes take %d bytes, the limit is %d: %w",
			len(ws), b.bytes, lim.total, framework.ErrTooLarge)
	}
	b.sum = blobSum(b.chunks)
	return b, ms, nil
}

// mutations gives the writes their tables and timestamps.
func mutations(ws []Write, base int64, tables binder) ([]mutation, error) {
	ms := make([]mutation, len(ws))
	var last *boundTarget
	for i := range ws {
		w := &ws[i]
		if w.err != nil {
			return nil, fmt.Errorf("%w: %w", framework.ErrRefused, w.err)
		}
		if last == nil || last.target != w.target {
			b, ok := tables.bound(w.target)
			if !ok {
				return nil, errUnknownTable(w)
			}
			last = b
		}
		if err := last.checkIndexed(w.row); err != nil {
			return nil, fmt.Errorf("%w: %w", framework.ErrRefused, err)
		}
		ms[i] = mutation{target: last, row: w.row, timestamp: base + int64(i), expires: w.expires, op: w.op}
	}
	return ms, nil
}

func errUnknownTable(w *Write) error {
	name := ""
	if w.target != nil {
		name = w.target.name
	}
	return fmt.Errorf("cassandra: table %q was not given to Open in Config.Tables, and so not checked: %w", name, framework.ErrRefused)
}

// chunkLen returns how many of the first mutations go into one chunk. It counts
// them uncompressed, so that the result cannot exceed the limit; the directory
// is counted once for each new table.
func chunkLen(ms []mutation, lim blobLimits) int {
	size := blobHeader + 4*binary.MaxVarintLen64
	seen := map[*boundTarget]bool{}
	for i := range ms {
		if ms[i].size() > lim.lone {
			return max(i, 1)
		}
		if !seen[ms[i].target] {
			seen[ms[i].target] = true
			size += len(appendDirectoryEntry(nil, ms[i].target))
		}
		if size += ms[i].size(); size > lim.chunk && i > 0 {
			return i
		}
	}
	return len(ms)
}

// encodeChunk compresses unless that makes it larger.
func encodeChunk(ms []mutation, base int64, first int, compress bool) []byte {
	payload := encodePayload(ms, base, first)
	chunk := append(make([]byte, 0, blobHeader+s2.MaxEncodedLen(len(payload))), blobMagic...)
	chunk = append(chunk, blobVersion, codecS2)
	if compress {
		packed := s2.Encode(chunk[blobHeader:cap(chunk)], payload)
		if len(packed) < len(payload) {
			return bytes.Clone(chunk[:blobHeader+len(packed)]) // the buffer is larger
		}
	}
	chunk[blobHeader-1] = codecNone
	return append(chunk, payload...)
}

func encodePayload(ms []mutation, base int64, first int) []byte {
	index := map[*boundTarget]uint64{}
	var directory []byte
	size := 4 * binary.MaxVarintLen64
	for i := range ms {
		size += ms[i].size()
		if _, ok := index[ms[i].target]; !ok {
			index[ms[i].target] = uint64(len(index))
			directory = appendDirectoryEntry(directory, ms[i].target)
		}
	}
	dst := make([]byte, 0, size+len(directory))
	for _, n := range []uint64{uint64(base), uint64(first), uint64(len(ms)), uint64(len(index))} {
		dst = binary.AppendUvarint(dst, n)
	}
	dst = append(dst, directory...)
	for i := range ms {
		m := &ms[i]
		dst = binary.AppendUvarint(dst, index[m.target])
		dst = append(dst, byte(m.op))
		dst = binary.AppendUvarint(dst, uint64(m.expires))
		dst = appendBytes(dst, m.row)
	}
	return dst
}

func appendDirectoryEntry(dst []byte, t *boundTarget) []byte {
	dst = appendBytes(dst, []byte(t.name))
	dst = append(dst, t.id[:]...)
	for _, n := range []int{t.partition, t.clustering, len(t.columns)} {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	for _, c := range t.columns {
		dst = appendBytes(dst, []byte(c.name))
		dst = appendBytes(dst, []byte(c.typ.String()))
	}
	return dst
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

func blobSum(chunks [][]byte) []byte {
	h := sha256.New()
	for _, c := range chunks {
		h.Write(c)
	}
	return h.Sum(nil)
}

// resolver finds the table that a stored blob names, or says why it must not be
// written to.
type resolver interface {
	resolve(ctx context.Context, t *target, id tableID) (*boundTarget, error)
}

// decodeBlob checks sum and returns all mutations, in order, or none. Damaged
// bytes wrap framework.ErrCorrupt; an error of tables is passed on. The rows alias
// the decompressed chunks.
func decodeBlob(ctx context.Context, chunks [][]byte, sum []byte, tables resolver) ([]mutation, error) {
	if len(chunks) > 0 && !bytes.Equal(blobSum(chunks), sum) {
		return nil, corrupt("the checksum does not match")
	}
	var all []mutation
	d := blobDecoder{tables: tables, seen: map[string]*boundTarget{}}
	for i, c := range chunks {
		ms, err := d.chunk(ctx, c, len(all))
		if err != nil {
			return nil, fmt.Errorf("chunk %d of %d: %w", i, len(chunks), err)
		}
		if i > 0 && ms[0].timestamp != all[0].timestamp+int64(len(all)) {
			return nil, corrupt("chunk %d belongs to another save", i)
		}
		all = append(all, ms...)
	}
	return all, nil
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("cassandra: blob of a save: %s: %w", fmt.Sprintf(format, args...), framework.ErrCorrupt)
}

// blobDecoder decodes the chunks of one blob. It resolves each entry of their
// directories once, by its bytes: resolving asks the database.
type blobDecoder struct {
	tables resolver
	seen   map[string]*boundTarget
}

// chunk decodes a chunk whose first write has number first.
func (d *blobDecoder) chunk(ctx context.Context, chunk []byte, first int) ([]mutation, error) {
	payload, err := decodeHeader(chunk)
	if err != nil {
		return nil, err
	}
	r := reader{rest: payload}
	base, number, count := r.uvarint(), r.uvarint(), r.count(minWriteBytes)
	targets, err := d.directory(ctx, &r)
	if err != nil {
		return nil, err
	}
	if r.bad || count == 0 || number != uint64(first) || base > maxTimestamp {
		return nil, corrupt("bad counts or order of chunks")
	}
	ms := make([]mutation, count)
	for i := range ms {
		if ms[i], err = decodeWrite(&r, targets); err != nil {
			return nil, fmt.Errorf("write %d: %w", first+i, err)
		}
		ms[i].timestamp = int64(base) + int64(first+i)
	}
	if len(r.rest) > 0 {
		return nil, corrupt("%d bytes too many", len(r.rest))
	}
	return ms, nil
}

const (
	minWriteBytes = 5       // index, op, expires, length, one cell of a key
	maxTimestamp  = 1 << 62 // far beyond any clock, and safe to add to
)

func decodeHeader(chunk []byte) ([]byte, error) {
	if len(chunk) < blobHeader || string(chunk[:len(blobMagic)]) != blobMagic {
		return nil, corrupt("it does not begin as a blob")
	}
	if v := chunk[len(blobMagic)]; v != blobVersion {
		return nil, fmt.Errorf("cassandra: blob of a save: format %d is not known to this program, which knows %d; run the version that wrote it: %w",
			v, blobVersion, framework.ErrConfig)
	}
	body := chunk[blobHeader:]
	switch codec := chunk[blobHeader-1]; codec {
	case codecNone:
		return body, nil
	case codecS2:
		if n, err := s2.DecodedLen(body); err != nil || n > maxPayload {
			return nil, corrupt("bad compressed length")
		}
		payload, err := s2.Decode(nil, body)
		if err != nil {
			return nil, corrupt("cannot be decompressed: %v", err)
		}
		return payload, nil
	default:
		return nil, corrupt("unknown compression %d", codec)
	}
}

func (d *blobDecoder) directory(ctx context.Context, r *reader) ([]*boundTarget, error) {
	targets := make([]*boundTarget, r.count(16))
	for i := range targets {
		start := r.rest
		t, id, err := decodeDirectoryEntry(r)
		if err != nil {
			return nil, err
		}
		entry := string(start[:len(start)-len(r.rest)])
		if d.seen[entry] == nil {
			if d.seen[entry], err = d.tables.resolve(ctx, t, id); err != nil {
				return nil, err
			}
		}
		targets[i] = d.seen[entry]
	}
	return targets, nil
}

func decodeDirectoryEntry(r *reader) (*target, tableID, error) {
	t := &target{name: string(r.bytes())}
	var id tableID
	copy(id[:], r.take(len(id)))
	partition, clustering, columns := r.uvarint(), r.uvarint(), r.count(2)
	if r.bad || partition == 0 || partition > uint64(columns) || clustering > uint64(columns)-partition {
		return nil, id, corrupt("bad directory")
	}
	t.partition, t.clustering = int(partition), int(clustering)
	for i := range columns {
		c := column{name: string(r.bytes()), role: t.roleOf(i)}
		typ, err := parseType(string(r.bytes()))
		if r.bad || err != nil {
			return nil, id, corrupt("bad directory: %v", err)
		}
		c.typ = typ
		t.columns = append(t.columns, c)
	}
	return t, id, nil
}

func decodeWrite(r *reader, targets []*boundTarget) (mutation, error) {
	index := r.uvarint()
	o := op(r.byte())
	expires := r.uvarint()
	row := r.bytes()
	if r.bad || index >= uint64(len(targets)) || expires > maxExpiry {
		return mutation{}, corrupt("cut short, or out of range")
	}
	m := mutation{target: targets[index], row: row, expires: int64(expires), op: o}
	if !m.wellFormed() {
		return mutation{}, corrupt("bad row of table %q", m.target.name)
	}
	return m, nil
}

// wellFormed reports whether the row has the cells that its op binds.
func (m *mutation) wellFormed() bool {
	keys, cells := m.target.keys(), len(m.target.columns)
	switch m.op {
	case opDelete:
		cells = keys
	case opInsert:
	case opUpdate:
		if keys == cells {
			return false
		}
	default:
		return false
	}
	rest := m.row
	for i := range cells {
		head, _, r, ok := nextCell(rest)
		if !ok || (i < keys && head < headValue) {
			return false
		}
		rest = r
	}
	return len(rest) == 0
}

// reader takes a payload apart; bad is set, and stays set, when it is cut short.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// count reads how many things follow, each of at least size bytes, so that a
// damaged count cannot claim more memory than there is data.
func (r *reader) count(size int) int {
	n := r.uvarint()
	if n > uint64(len(r.rest)/size) {
		r.bad, r.rest = true, nil
		return 0
	}
	return int(n)
}

func (r *reader) take(n int) []byte {
	if n > len(r.rest) {
		r.bad, r.rest = true, nil
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) bytes() []byte { return r.take(r.count(1)) }
