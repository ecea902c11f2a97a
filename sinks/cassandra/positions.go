package cassandra

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Positions implements [framework.PositionLister]. It reads the whole ledger, one
// row a lane, at a plain quorum: a read at SERIAL would take part in the lanes'
// own conditional statements and disturb them. So it may miss a save whose answer
// is still on its way.
func (s *Sink) Positions(ctx context.Context, pipeline string) ([]framework.StoredPosition, error) {
	ctx, end, err := s.ready(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	var all []framework.StoredPosition
	err = s.retry(ctx, func() (err error) {
		all, err = s.cql.positions(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list positions: %w", err)
	}
	if pipeline != "" {
		all = slices.DeleteFunc(all, func(p framework.StoredPosition) bool { return p.Pipeline != pipeline })
	}
	slices.SortFunc(all, func(a, b framework.StoredPosition) int {
		return cmp.Or(cmp.Compare(a.Pipeline, b.Pipeline), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return all, nil
}

func (s *cqlStore) positions(ctx context.Context) ([]framework.StoredPosition, error) {
	q, cancel := s.query(ctx, "SELECT pipeline, topic, partition, owner, seq, applied, next_offset, leader_epoch, topic_id, "+
		"lane, saved_at FROM "+s.table(ledgerTable))
	defer cancel()
	iter := q.Consistency(s.consistency.monitor()).Iter()
	var all []framework.StoredPosition
	for {
		var p framework.StoredPosition
		var seq, applied int64
		var id gocql.UUID
		if !iter.Scan(&p.Pipeline, &p.Topic, &p.Partition, &p.Owner, &seq, &applied,
			&p.Position.Offset, &p.Position.LeaderEpoch, &id, &p.Lane, &p.SavedAt) {
			break
		}
		p.Position.TopicID = offsetstore.TopicID(id)
		p.Lane, p.Pending = nilIfEmpty(p.Lane), applied < seq
		all = append(all, p)
	}
	if err := iter.Close(); err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	return all, nil
}
