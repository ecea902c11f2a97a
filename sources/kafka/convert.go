package kafka

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/framework"
)

// convert turns the client's records into the framework's. Keys, values and
// header values are copied into one slice: the client's point into the whole
// answer of a broker, which a slow lane would otherwise keep alive for the sake
// of a few records. There are three allocations at most, however many records.
func convert(recs []*kgo.Record) ([]framework.Record, int) {
	var size, headers int
	for _, r := range recs {
		size += len(r.Key) + len(r.Value)
		headers += len(r.Headers)
		for i := range r.Headers {
			size += len(r.Headers[i].Value)
		}
	}
	out := make([]framework.Record, len(recs))
	data := slab(make([]byte, 0, size))
	for i, r := range recs {
		out[i] = framework.Record{
			Offset:      r.Offset,
			LeaderEpoch: r.LeaderEpoch,
			Timestamp:   r.Timestamp.UTC(),
			Key:         data.copy(r.Key),
			Value:       data.copy(r.Value),
		}
	}
	if headers > 0 {
		convertHeaders(out, recs, headers, &data)
	}
	return out, size + 64*len(recs)
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

func convertHeaders(out []framework.Record, recs []*kgo.Record, total int, data *slab) {
	all := make([]framework.Header, 0, total)
	for i, r := range recs {
		if len(r.Headers) == 0 {
			continue
		}
		from := len(all)
		for _, h := range r.Headers {
			all = append(all, framework.Header{Key: h.Key, Value: data.copy(h.Value)})
		}
		out[i].Headers = all[from:len(all):len(all)]
	}
}
