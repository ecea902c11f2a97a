package proxy

import (
	"bufio"
	"bytes"
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kafka returns a proxy of a Kafka broker. A client reaches it by [Proxy.Dial].
func Kafka(target string) (*Proxy, error) {
	return start(target, func() wire { return kafkaWire{} })
}

// kafkaWire: size, key, version and correlation number of a request; size and
// correlation number of an answer.
type kafkaWire struct{}

func (kafkaWire) read(in *bufio.Reader) ([]byte, error) {
	return readSized(in, 4, func(h []byte) int { return int(int32(binary.BigEndian.Uint32(h))) })
}

func (kafkaWire) request(m []byte) (Request, uint64, error) {
	if len(m) < 12 {
		return Request{}, 0, unknown{errShort}
	}
	key := kmsg.Key(binary.BigEndian.Uint16(m[4:]))
	return Request{Kind: key.Name()}, uint64(binary.BigEndian.Uint32(m[8:])), nil
}

func (kafkaWire) answer(m []byte) (uint64, error) {
	if len(m) < 8 {
		return 0, unknown{errShort}
	}
	return uint64(binary.BigEndian.Uint32(m[4:])), nil
}

// forge is not possible: an answer's form depends on the request's version.
func (kafkaWire) forge([]byte, Answer) []byte { return nil }

func (kafkaWire) renumber(m []byte) ([]byte, uint64) {
	const unused = 1<<31 - 1 // clients count from 0
	again := bytes.Clone(m)
	binary.BigEndian.PutUint32(again[8:], unused)
	return again, unused
}
