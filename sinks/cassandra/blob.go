package cassandra

import "context"

// blob is the encoded form of one save. One content, fixed once.
type blob struct {
	chunks [][]byte // each decodable on its own; in write order
	sum    []byte   // SHA-256 over all chunks, in order
	bytes  int      // their total length
}

// blobLimits bound what encodeBlob makes, in bytes.
type blobLimits struct {
	chunk int // a chunk, encoded; a single larger write has a chunk of its own
	lone  int // a write above this travels alone and uncompressed
	total int // all chunks together, encoded
}

// binder finds the bound form of a target that the sink has checked.
type binder interface {
	bound(t *target) (*boundTarget, bool)
}

// resolver finds the table that a stored blob names, or says why it must not be
// written to.
type resolver interface {
	resolve(ctx context.Context, t *target, id tableID) (*boundTarget, error)
}

// encodeBlob encodes writes; write i has timestamp base+i. It also returns the
// mutations that decodeBlob would return, sharing the writes' rows. More than
// lim.total wraps framework.ErrTooLarge.
func encodeBlob(ws []Write, base int64, tables binder, lim blobLimits) (blob, []mutation, error) {
	panic("todo")
}

// decodeBlob checks sum and returns all mutations, in order, or none. Damaged
// bytes wrap framework.ErrCorrupt; an error of tables is passed on. The rows alias
// the decompressed chunks.
func decodeBlob(ctx context.Context, chunks [][]byte, sum []byte, tables resolver) ([]mutation, error) {
	panic("todo")
}
