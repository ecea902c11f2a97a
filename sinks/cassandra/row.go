package cassandra

import (
	"encoding/binary"
	"reflect"
)

// A row is the cells of one write, one per column of its target in order; a
// delete has those of the key only. A cell is a uvarint head, then the value:
// head 0 is unset (not written at all), 1 is clear (writes null), and n+2 a value
// of n bytes in CQL's own binary form. The encoding is canonical, so equal keys
// are equal bytes.
const (
	headUnset = 0
	headClear = 1
	headValue = 2 // plus the length
)

func appendUnset(dst []byte) []byte { return append(dst, headUnset) }
func appendClear(dst []byte) []byte { return append(dst, headClear) }

// appendCell appends a cell with the value that enc makes of v. The length is
// known only afterwards, so room is made for the usual head of one byte, and a
// longer value moved.
func appendCell(dst []byte, enc valueEncoder, v reflect.Value) ([]byte, error) {
	start := len(dst)
	dst, err := enc(append(dst, 0), v)
	if err != nil {
		return nil, err
	}
	n := len(dst) - start - 1
	var head [binary.MaxVarintLen64]byte
	h := binary.PutUvarint(head[:], uint64(n)+headValue)
	if h > 1 {
		dst = append(dst, head[:h-1]...)
		copy(dst[start+h:], dst[start+1:start+1+n])
	}
	copy(dst[start:], head[:h])
	return dst, nil
}

// nextCell splits the first cell off row. ok is false when row is damaged, and
// for an empty row.
func nextCell(row []byte) (head uint64, value, rest []byte, ok bool) {
	head, n := binary.Uvarint(row)
	if n <= 0 {
		return 0, nil, nil, false
	}
	row = row[n:]
	if head < headValue {
		return head, nil, row, true
	}
	size := head - headValue
	if size > uint64(len(row)) {
		return 0, nil, nil, false
	}
	return head, row[:size:size], row[size:], true
}
