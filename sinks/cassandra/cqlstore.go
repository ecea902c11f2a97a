package cassandra

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// cqlStore is the store in Cassandra. It may be used concurrently.
type cqlStore struct {
	session     *gocql.Session
	keyspace    string
	consistency Consistency
	timeout     time.Duration // of one request
	now         func() time.Time
}

// Timestamps of stage rows. They are not times: a delete beats an insert of the
// same rows even when it overtakes it.
const (
	stageInsertTimestamp = 1
	stageDeleteTimestamp = 2
)

// stagePage bounds the answer of one read of stage rows, in rows.
const stagePage = 8

// table returns the quoted, qualified name of one of the sink's own tables.
func (s *cqlStore) table(name string) string {
	return quoteIdentifier(s.keyspace) + "." + quoteIdentifier(name)
}

// query prepares a statement at the quorum of the sink's scope. The driver must
// neither repeat it nor stamp it by the clock of this process.
func (s *cqlStore) query(ctx context.Context, cql string, args ...any) (*gocql.Query, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	q := s.session.Query(cql, args...).WithContext(ctx).
		Consistency(s.consistency.quorum()).DefaultTimestamp(false).RetryPolicy(nil).Idempotent(false)
	return q, cancel
}

const ledgerKeyCondition = " WHERE pipeline = ? AND topic = ? AND partition = ?"

// readLedger implements store. The driver takes SERIAL as the consistency of a
// SELECT; SerialConsistency would be ignored there.
func (s *cqlStore) readLedger(ctx context.Context, lane laneKey) (*ledgerRow, error) {
	q, cancel := s.query(ctx, "SELECT format, epoch, claim, owner, seq, applied, next_offset, leader_epoch, topic_id, high_ts, gen, "+
		"save_claim, chunks, bytes, sum, body, lane, saved_at FROM "+s.table(ledgerTable)+ledgerKeyCondition,
		lane.pipeline, lane.topic, lane.partition)
	defer cancel()
	var r ledgerRow
	var topicID *gocql.UUID
	var leaderEpoch *int32
	var next *int64 // null would pass for offset 0
	err := q.Consistency(s.consistency.serialRead()).Scan(&r.format, &r.epoch, &r.claim, &r.owner, &r.seq, &r.applied,
		&next, &leaderEpoch, &topicID, &r.highTS, &r.gen,
		&r.saveClaim, &r.chunks, &r.bytes, &r.sum, &r.body, &r.lane, &r.savedAt)
	if errors.Is(err, gocql.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	r.position.Offset = -1
	if next != nil && leaderEpoch != nil && topicID != nil {
		r.position = offsetstore.Position{Offset: *next, LeaderEpoch: *leaderEpoch, TopicID: offsetstore.TopicID(*topicID)}
	}
	return &r, nil
}

// execute implements store. The values that a refused statement returns are not
// used: they may be those of our own earlier attempt.
func (s *cqlStore) execute(ctx context.Context, st conditional) (bool, error) {
	cql, args := s.conditionalCQL(st)
	q, cancel := s.query(ctx, cql, args...)
	defer cancel()
	applied, err := q.SerialConsistency(s.consistency.serial()).MapScanCAS(map[string]any{})
	if err != nil {
		return false, fmt.Errorf("conditional statement: %w", err)
	}
	return applied, nil
}

func (s *cqlStore) conditionalCQL(st conditional) (string, []any) {
	var b strings.Builder
	args := make([]any, 0, len(st.set)+len(st.when)+3)
	key := []any{st.lane.pipeline, st.lane.topic, st.lane.partition}
	if st.create {
		b.WriteString("INSERT INTO " + s.table(ledgerTable) + " (pipeline, topic, partition")
		args = append(args, key...)
		for _, a := range st.set {
			b.WriteString(", " + a.column)
			args = append(args, a.value)
		}
		b.WriteString(") VALUES (?, ?, ?" + strings.Repeat(", ?", len(st.set)) + ") IF NOT EXISTS")
		return b.String(), args
	}
	b.WriteString("UPDATE " + s.table(ledgerTable))
	sep := " SET "
	for _, a := range st.set {
		b.WriteString(sep + a.column + " = ?")
		args = append(args, a.value)
		sep = ", "
	}
	b.WriteString(ledgerKeyCondition)
	args = append(args, key...)
	sep = " IF "
	for _, c := range st.when {
		b.WriteString(sep + c.column + " = ?")
		args = append(args, c.value)
		sep = " AND "
	}
	return b.String(), args
}

const stageKeyCondition = " WHERE pipeline = ? AND topic = ? AND partition = ? AND claim = ? AND seq = ?"

func (k stageKey) args() []any {
	return []any{k.lane.pipeline, k.lane.topic, k.lane.partition, k.claim, k.seq}
}

func (s *cqlStore) writeChunk(ctx context.Context, key stageKey, n int, data []byte) error {
	q, cancel := s.query(ctx, "INSERT INTO "+s.table(stageTable)+
		" (pipeline, topic, partition, claim, seq, chunk, data) VALUES (?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?",
		append(key.args(), n, data, int64(stageInsertTimestamp))...)
	defer cancel()
	if err := q.Exec(); err != nil {
		return fmt.Errorf("write chunk %d: %w", n, err)
	}
	return nil
}

func (s *cqlStore) readChunks(ctx context.Context, key stageKey) (map[int][]byte, error) {
	q, cancel := s.query(ctx, "SELECT chunk, data FROM "+s.table(stageTable)+stageKeyCondition, key.args()...)
	defer cancel()
	// Pages, so that no answer is as large as a whole save.
	iter := q.PageSize(stagePage).Iter()
	chunks := map[int][]byte{}
	var n int
	// The driver fills the slice it is given: a fresh one per row, kept by us.
	for data := []byte(nil); iter.Scan(&n, &data); data = nil {
		chunks[n] = data
	}
	if err := iter.Close(); err != nil {
		return nil, fmt.Errorf("read chunks: %w", err)
	}
	return chunks, nil
}

func (s *cqlStore) deleteChunks(ctx context.Context, key stageKey) error {
	q, cancel := s.query(ctx, "DELETE FROM "+s.table(stageTable)+" USING TIMESTAMP ?"+stageKeyCondition,
		append([]any{int64(stageDeleteTimestamp)}, key.args()...)...)
	defer cancel()
	if err := q.Exec(); err != nil {
		return fmt.Errorf("delete chunks: %w", err)
	}
	return nil
}

// apply implements store with one unlogged batch: a batch of one partition is one
// mutation, so the server neither splits nor logs it.
func (s *cqlStore) apply(ctx context.Context, group []mutation) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	// Each statement has a timestamp of its own; one for the batch would make two
	// writes of one row equal. The driver routes by the first statement's key.
	b := s.session.NewBatch(gocql.UnloggedBatch).WithContext(ctx).RetryPolicy(nil).DefaultTimestamp(false)
	b.SetConsistency(s.consistency.quorum())
	b.Entries = entries(group, s.now())
	if err := s.session.ExecuteBatch(b); err != nil {
		return fmt.Errorf("table %s: %w", group[0].target.name, err)
	}
	return nil
}

func (s *cqlStore) readState(ctx context.Context, b stateBucket, keys [][]byte) (map[string][]byte, error) {
	q, cancel := s.query(ctx, "SELECT key, v FROM "+s.table(stateTable)+
		" WHERE pipeline = ? AND op = ? AND topic = ? AND partition = ? AND gen = ? AND win = ? AND bucket = ? AND key IN ?",
		b.lane.pipeline, b.operator, b.lane.topic, b.lane.partition, b.gen, b.window, b.bucket, keys)
	defer cancel()
	iter := q.Iter()
	values := make(map[string][]byte, len(keys))
	var key []byte
	// The driver fills the slice it is given: a fresh one per row, kept by us.
	for v := []byte(nil); iter.Scan(&key, &v); v = nil {
		values[string(key)] = notNull(v)
	}
	if err := iter.Close(); err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	return values, nil
}
