package sourcetest

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/lockstep-stream/lockstep/framework"
)

func readCases() []testCase {
	return []testCase{{
		name: "read_in_order",
		rule: "every record of a partition is delivered once, in offset order, those that are written while it is read included",
		run:  readInOrder,
	}, {
		name: "read_values",
		rule: "a record's value is what was written, byte for byte",
		run: func(e *env) {
			e.readBack([]framework.Record{
				{Timestamp: timestamp(0), Value: []byte("plain")},
				{Timestamp: timestamp(1), Value: []byte{0, 255, 128, 0}},
				{Timestamp: timestamp(2), Value: bytes.Repeat([]byte("large "), 100_000)},
			}, func(got, want framework.Record) string { return differs("value", got.Value, want.Value) })
		},
	}, {
		name:  "read_whole",
		rule:  "a record keeps key, value, headers and timestamp: nil differs from empty, header keys may repeat and keep their order",
		needs: need{features: Features{WholeRecords: true}},
		run:   func(e *env) { e.readBack(wholeRecords(), recordDiffers) },
	}, {
		name: "read_memory_is_not_reused",
		rule: "a source never reuses the memory of records it has delivered",
		run:  memoryIsNotReused,
	}, {
		name:  "read_over_gaps",
		rule:  "offsets that hold no record are passed over: before, at and behind a start",
		needs: need{gap: true, features: Features{Log: true}},
		run:   readOverGaps,
	}}
}

func readInOrder(e *env) {
	const partitions, rounds, each = 3, 4, 50
	e.create(partitions)
	st := e.store()
	s := st.lanes()
	for n := range int32(partitions) {
		e.append(n, 0, each)
	}
	e.run(s)
	for round := 1; round <= rounds; round++ {
		st.wait(partitions, int64(round*each), s)
		if round == rounds {
			break
		}
		for n := range int32(partitions) {
			e.append(n, round*each, (round+1)*each)
		}
	}
	st.wantComplete(partitions, rounds*each)
	for n := range int32(partitions) {
		s.want(s.lane(n), sequence(0, rounds*each))
	}
}

// readBack writes records and compares what is delivered.
func (e *env) readBack(want []framework.Record, differ func(got, want framework.Record) string) {
	e.r.Helper()
	e.create(1)
	e.harness("Append", e.h.Append(e.ctx, e.tp(0), slices.Clone(want)...))
	s := e.store().lanes()
	e.run(s)
	l := s.lane(0)
	s.waitNext(l, int64(len(want)))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, w := range want {
		if text := differ(l.records[i], w); text != "" {
			e.fatalf("record %d: %s", i, text)
		}
	}
}

func wholeRecords() []framework.Record {
	return []framework.Record{
		{Timestamp: timestamp(0), Key: []byte("key"), Value: []byte("value"), Headers: []framework.Header{{Key: "a", Value: []byte("1")}}},
		{Timestamp: timestamp(1), Key: nil, Value: []byte("no key")},
		{Timestamp: timestamp(2), Key: []byte{}, Value: []byte("empty key")},
		{Timestamp: timestamp(3), Key: []byte("tombstone"), Value: nil},
		{Timestamp: timestamp(4), Key: []byte("empty value"), Value: []byte{}},
		{Timestamp: timestamp(5), Value: []byte("v"), Headers: []framework.Header{
			{Key: "z", Value: []byte("1")}, {Key: "a", Value: []byte{0, 255}}, {Key: "z", Value: []byte("2")}, {Key: "", Value: []byte("unnamed")},
		}},
	}
}

func recordDiffers(got, want framework.Record) string {
	for _, text := range []string{differs("key", got.Key, want.Key), differs("value", got.Value, want.Value)} {
		if text != "" {
			return text
		}
	}
	if !got.Timestamp.Equal(want.Timestamp) {
		return fmt.Sprintf("timestamp is %v, want %v", got.Timestamp, want.Timestamp)
	}
	same := func(a, b framework.Header) bool { return a.Key == b.Key && bytes.Equal(a.Value, b.Value) }
	if !slices.EqualFunc(got.Headers, want.Headers, same) {
		return fmt.Sprintf("headers are %q, want %q", got.Headers, want.Headers)
	}
	return ""
}

func differs(field string, got, want []byte) string {
	const most = 40
	if bytes.Equal(got, want) && (got == nil) == (want == nil) {
		return ""
	}
	return fmt.Sprintf("%s is %.*q (%d bytes, nil: %t), want %.*q (%d bytes, nil: %t)", field, most, got, len(got), got == nil, most, want, len(want), want == nil)
}

func memoryIsNotReused(e *env) {
	const records = 300
	e.create(1)
	e.append(0, 0, records)
	s := e.store().lanes()
	e.run(s)
	l := s.lane(0)
	s.waitNext(l, records)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range l.records {
		if want := numbered(i).Value; !bytes.Equal(r.Value, want) {
			e.fatalf("record %d, looked at again after %d others, holds %q, want %q", i, records-i-1, r.Value, want)
		}
	}
}

func readOverGaps(e *env) {
	e.create(1)
	e.append(0, 0, 5)
	e.harness("Gap", e.h.Gap(e.ctx, e.tp(0)))
	e.append(0, 5, 10)
	e.harness("Gap", e.h.Gap(e.ctx, e.tp(0)))
	s := e.lanesFrom(0)
	e.run(s)
	l := s.lane(0)
	s.wait("ten records", func() bool { return len(l.records) >= 10 })
	offsets := s.offsets(l)
	behind := offsets[5]
	if len(offsets) != 10 || behind <= 5 {
		e.fatalf("delivered offsets %v, want ten with a gap behind the fifth", offsets)
	}
	for from := int64(5); from <= behind; from++ { // in the gap, and right behind it
		l.p.Pause()
		s.mustBegin(l, from)
		s.wait("five records", func() bool { return len(l.records) >= 5 })
		s.want(l, offsets[5:])
	}
	e.append(0, 10, 11) // behind the gap at the end
	s.wait("a record behind the last gap", func() bool { return len(l.records) >= 6 })
	if last := s.offsets(l)[5]; last <= offsets[9]+1 {
		e.fatalf("the record behind the last gap has offset %d, the one before it %d", last, offsets[9])
	}
}
