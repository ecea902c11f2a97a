// Package codec turns bytes into values and back: the values of records for
// framework.From, and the keys and values that a reduction keeps in the sink.
//
//	[JSON]     any type encoding/json can handle
//	[String]   text, byte for byte
//	[Bytes]    raw bytes, without a copy
//	[Int64]    8 bytes, big-endian: what Kafka's LongSerializer writes
//	[Float64]  8 bytes, big-endian: what Kafka's DoubleSerializer writes
//
// A codec has no state and may be used by any number of goroutines.
//
// # The JSON decoder
//
// JSON decodes with github.com/goccy/go-json and behaves like encoding/json: it
// accepts and refuses the same inputs, gives the same values and returns
// encoding/json's own errors. Whatever the fast decoder does not accept is
// decoded again by encoding/json, which has the last word; that the two agree
// on what the fast one does accept is held by a differential fuzz test over
// duplicate and case-folded names, invalid UTF-8, escapes, overflowing numbers,
// nulls, trailing data, depth, embedded structs, custom unmarshalers and more.
//
// It was chosen by the benchmarks beside this file (BenchmarkDecode). For an
// event of 120 bytes with five fields, Go 1.26, one core:
//
//	encoding/json          2,500 ns   6 allocations
//	bytedance/sonic (Std)  1,000 ns   4 allocations
//	goccy/go-json            390 ns   2 allocations (the two strings)
//
// sonic generates machine code at run time and depends on the insides of each
// Go release; only its ConfigStd checks UTF-8 and copies strings, and that one
// is slower.
//
// # Keys
//
// The encoding of a key must be canonical: the key is found again by its bytes.
// All codecs here are, with these conditions for [JSON]: the key's type has no
// float and no custom MarshalJSON whose output varies, and its field names and
// their order stay as they are for as long as the state lives. Map entries are
// sorted by encoding/json.
//
// # Caveats
//
// An empty value (a tombstone, or a value of no bytes) is no JSON: it is
// [ErrEmpty]. [String] reads both as "". Only [Bytes] tells them apart.
//
// JSON cannot hold text that is not UTF-8. Decoding replaces it by U+FFFD, as
// encoding/json does; Append refuses it with [ErrInvalidUTF8], since two
// different keys would get the same bytes. Use String or Bytes for such keys.
//
// Strings decoded from JSON are copies, so that a small string kept for long (a
// key in a cache) does not keep the fetched block of records alive.
package codec
