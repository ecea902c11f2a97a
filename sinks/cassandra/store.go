package cassandra

import (
	"context"

	"github.com/gocql/gocql"
)

// store is everything that the protocol asks of the database. Each method sends
// one statement and does not repeat it; after an error for which refusedForGood
// is false, a statement that writes may have taken effect, or may yet. The
// protocol's correctness is tested against a store that does all of that.
type store interface {
	// readLedger reads a ledger row and sees every conditional statement that was
	// decided before. It returns nil when there is no row.
	readLedger(ctx context.Context, lane laneKey) (*ledgerRow, error)
	// execute runs a conditional statement. Only applied = true is a success.
	execute(ctx context.Context, st conditional) (applied bool, err error)

	// writeChunk writes one stage row; repeating it changes nothing.
	writeChunk(ctx context.Context, key stageKey, n int, data []byte) error
	// readChunks returns the stage rows of key by number, as many as exist.
	readChunks(ctx context.Context, key stageKey) (map[int][]byte, error)
	// deleteChunks removes the stage rows of key, even ones that arrive later.
	deleteChunks(ctx context.Context, key stageKey) error

	// apply writes mutations of one partition of one table, with their timestamps.
	apply(ctx context.Context, group []mutation) error

	// readTopic reads what the first start of a topic stored, and sees every
	// insertTopic that was decided before. It returns nil when there is no row.
	readTopic(ctx context.Context, pipeline, topic string) (*topicRow, error)
	// insertTopic stores row unless there is one.
	insertTopic(ctx context.Context, pipeline, topic string, row topicRow) error

	// readState returns the values that one state partition holds for keys.
	readState(ctx context.Context, bucket stateBucket, keys [][]byte) (map[string][]byte, error)
}

// stageKey names the stage rows of one attempt to save: no other attempt ever
// has the same claim and number.
type stageKey struct {
	lane  laneKey
	claim gocql.UUID
	seq   int64
}
