package sql

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// evictFrozen finds the session that has changed the lane's row by the number its
// transaction has left in it. One that waits for its client in the middle of a
// statement is within a COPY, which no timeout of the server's ends; all others
// end by the timeouts of the session. A role may end and see sessions of its own
// only: of another role's none is found, and the claim fails for the lock.
const evictFrozen = `
	SELECT pg_terminate_backend(a.pid)
	FROM lockstep_lane l JOIN pg_stat_activity a ON a.backend_xid = l.xmax
	WHERE l.pipeline = $1 AND l.topic = $2 AND l.partition = $3 AND a.state = 'active' AND a.wait_event = 'ClientRead'`

// evict ends an owner that a claim has waited for as long as lock_timeout says. If
// it is only slow, it loses what it was about to lose by the claim.
func (postgres) evict(ctx context.Context, q querier, pipeline string, tp offsetstore.TopicPartition, err error) bool {
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Code != "55P03" {
		return false
	}
	var ended bool
	return q.QueryRowContext(ctx, evictFrozen, pipeline, tp.Topic, tp.Partition).Scan(&ended) == nil && ended
}
