package cassandra

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// String shows w to people, such as in the output of a test: the operation, the
// table and the columns that are set, with long values cut and those of
// collections and rarer types in hexadecimal. The form may change.
func (w Write) String() string {
	name := [...]string{opInsert: "insert", opUpdate: "upsert", opDelete: "delete"}
	switch {
	case w.err != nil:
		return fmt.Sprintf("write that is refused: %v", w.err)
	case w.target == nil:
		return "empty write"
	}
	s := fmt.Sprintf("%s %s(%s)", name[w.op], w.target.name, strings.Join(w.shownCells(), ", "))
	if w.expires != 0 {
		s += " until " + time.Unix(w.expires, 0).UTC().Format(time.RFC3339)
	}
	return s
}

func (w *Write) shownCells() []string {
	var cells []string
	row := w.row
	for _, c := range w.target.columns {
		head, v, rest, ok := nextCell(row)
		if !ok {
			break // a delete has the key only
		}
		row = rest
		switch head {
		case headUnset:
		case headClear:
			cells = append(cells, c.name+"=NULL")
		default:
			cells = append(cells, c.name+"="+shownValue(c.typ.kind, v))
		}
	}
	return cells
}

// shownValue reads a value of the common types back from CQL's binary form.
func shownValue(k kind, v []byte) string {
	switch {
	case k == kindText || k == kindASCII:
		return cut(string(v))
	case k == kindBoolean && len(v) == 1:
		return strconv.FormatBool(v[0] != 0)
	case k == kindTinyint && len(v) == 1:
		return strconv.Itoa(int(int8(v[0])))
	case k == kindSmallint && len(v) == 2:
		return strconv.Itoa(int(int16(binary.BigEndian.Uint16(v))))
	case k == kindInt && len(v) == 4:
		return strconv.Itoa(int(int32(binary.BigEndian.Uint32(v))))
	case k == kindBigint && len(v) == 8:
		return strconv.FormatInt(int64(binary.BigEndian.Uint64(v)), 10)
	case k == kindDouble && len(v) == 8:
		return strconv.FormatFloat(math.Float64frombits(binary.BigEndian.Uint64(v)), 'g', -1, 64)
	case k == kindTimestamp && len(v) == 8:
		return time.UnixMilli(int64(binary.BigEndian.Uint64(v))).UTC().Format("2006-01-02T15:04:05.000Z")
	case (k == kindUUID || k == kindTimeUUID) && len(v) == 16:
		return fmt.Sprintf("%x-%x-%x-%x-%x", v[:4], v[4:6], v[6:8], v[8:10], v[10:])
	default:
		return cut("0x" + hex.EncodeToString(v[:min(len(v), mostShown)]))
	}
}

// mostShown is how many bytes of a value are shown: enough to recognise a key by.
const mostShown = 60

func cut(s string) string {
	if len(s) > mostShown {
		return strings.ToValidUTF8(s[:mostShown], "") + "…"
	}
	return s
}
