package proxy

import "encoding/binary"

// Codes of CQL errors.
const (
	codeUnavailable     = 0x1000
	codeOverloaded      = 0x1001
	codeWriteTimeout    = 0x1100
	codeReadTimeout     = 0x1200
	codeCASWriteUnknown = 0x1700
)

// Consistencies, as they appear in errors.
const (
	atQuorum = 0x0004
	atSerial = 0x0008
)

// CASTimeout is a node's answer to a conditional statement that took too long: it
// may have been applied, or be applied yet.
func CASTimeout() Answer {
	return failure(codeWriteTimeout, "Operation timed out - received only 0 responses.", short(atSerial), long(0), long(1), text("CAS"))
}

// CASUnknown is a node's answer to a conditional statement of which it does not
// know whether it was applied.
func CASUnknown() Answer {
	return failure(codeCASWriteUnknown, "CAS operation result is unknown - proposal was not accepted by a quorum", short(atSerial), long(0), long(1))
}

// WriteTimeout is a node's answer to an ordinary write that took too long.
func WriteTimeout() Answer {
	return failure(codeWriteTimeout, "Operation timed out - received only 0 responses.", short(atQuorum), long(0), long(1), text("SIMPLE"))
}

// ReadTimeout is a node's answer to a read that took too long.
func ReadTimeout() Answer {
	return failure(codeReadTimeout, "Operation timed out - received only 0 responses.", short(atQuorum), long(0), long(1), []byte{0})
}

// Unavailable is a node's answer where too few replicas are up to begin.
func Unavailable() Answer {
	return failure(codeUnavailable, "Cannot achieve consistency level QUORUM", short(atQuorum), long(1), long(0))
}

// Overloaded is a node's answer when it has too much to do to begin.
func Overloaded() Answer { return failure(codeOverloaded, "Server is in overloaded state") }

func failure(code uint32, message string, details ...[]byte) Answer {
	body := append(long(code), text(message)...)
	for _, d := range details {
		body = append(body, d...)
	}
	return Answer{opcode: opError, body: body}
}

func short(n uint16) []byte { return binary.BigEndian.AppendUint16(nil, n) }
func long(n uint32) []byte  { return binary.BigEndian.AppendUint32(nil, n) }
func text(s string) []byte  { return append(short(uint16(len(s))), s...) }
