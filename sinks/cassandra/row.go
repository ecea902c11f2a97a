package cassandra

import "encoding/binary"

// A row is the cells of one write, one per column of its target in order. A cell
// is a uvarint head, then the value: head 0 is unset (not written at all), 1 is
// clear (writes null), and n+2 a value of n bytes in CQL's own binary form.
// The encoding is canonical, so equal keys are equal bytes.
const (
	headUnset = 0
	headClear = 1
	headValue = 2 // plus the length
)

func appendUnset(dst []byte) []byte { return append(dst, headUnset) }
func appendClear(dst []byte) []byte { return append(dst, headClear) }

// appendValue appends a cell that holds v.
func appendValue(dst, v []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(v))+headValue)
	return append(dst, v...)
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
