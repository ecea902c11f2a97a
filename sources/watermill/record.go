package watermill

import (
	"maps"
	"slices"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// UUIDHeader is the header of a record that holds the message's UUID, the one
// that watermill-kafka uses in Kafka.
const UUIDHeader = kafka.UUIDHeaderKey

// UUID returns the UUID of the message that a record came from, or "".
func UUID(r *framework.Record) string {
	for _, h := range r.Headers {
		if h.Key == UUIDHeader {
			return string(h.Value)
		}
	}
	return ""
}

// Metadata returns the metadata of the message that a record came from. It is a
// new map each time.
func Metadata(r *framework.Record) message.Metadata {
	m := make(message.Metadata, len(r.Headers))
	for _, h := range r.Headers {
		if h.Key != UUIDHeader {
			m[h.Key] = string(h.Value)
		}
	}
	return m
}

// headersOf returns UUID and metadata as headers, in the order of their keys.
func headersOf(m *message.Message) []framework.Header {
	var out []framework.Header
	if m.UUID != "" {
		out = append(out, framework.Header{Key: UUIDHeader, Value: []byte(m.UUID)})
	}
	for _, key := range slices.Sorted(maps.Keys(m.Metadata)) {
		if key != UUIDHeader {
			out = append(out, framework.Header{Key: key, Value: []byte(m.Metadata[key])})
		}
	}
	return out
}

// newRecord joins what Kafka holds with what the unmarshaler made of it. Key,
// value and headers are copied into one slice: sarama's point into the whole
// answer of a broker, which a slow lane would otherwise keep alive.
func newRecord(k *sarama.ConsumerMessage, m *message.Message) framework.Record {
	data := make(slab, 0, sizeOf(k, m))
	return framework.Record{
		Offset:      k.Offset,
		LeaderEpoch: offsetstore.NoLeaderEpoch,
		Timestamp:   k.Timestamp.UTC(),
		Key:         data.copy(k.Key),
		Value:       data.copy(m.Payload),
		Headers:     mergeHeaders(k.Headers, m, &data),
	}
}

func sizeOf(k *sarama.ConsumerMessage, m *message.Message) int {
	n := len(k.Key) + len(m.Payload)
	for _, h := range k.Headers {
		n += len(h.Value)
	}
	return n
}

// mergeHeaders keeps Kafka's headers, in their order and with repetitions, which
// metadata cannot hold, and adds what only the message has.
func mergeHeaders(raw []*sarama.RecordHeader, m *message.Message, data *slab) []framework.Header {
	if len(raw) == 0 && len(m.Metadata) == 0 && m.UUID == "" {
		return nil
	}
	out := make([]framework.Header, 0, len(raw))
	for _, h := range raw {
		out = append(out, framework.Header{Key: string(h.Key), Value: data.copy(h.Value)})
	}
	for _, h := range headersOf(m) {
		if !slices.ContainsFunc(out, func(o framework.Header) bool { return o.Key == h.Key && string(o.Value) == string(h.Value) }) {
			out = append(out, h)
		}
	}
	return out
}

// slab is memory that was allocated for a known number of bytes.
type slab []byte

// copy returns a copy of b within the slab. Nil stays nil: it means "none".
func (s *slab) copy(b []byte) []byte {
	if b == nil {
		return nil
	}
	from := len(*s)
	*s = append(*s, b...)
	return (*s)[from:len(*s):len(*s)]
}
