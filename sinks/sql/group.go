package sql

import (
	"context"
	"fmt"

	"github.com/lockstep-stream/lockstep/framework"
)

// group is the writes of a batch to one table, in order. Grouping by table turns
// the usual mixture of writes into long runs, which few statements write; the
// order of two writes matters only within a table.
type group struct {
	table  *boundTable
	writes []*Write
}

// groupWrites sorts the writes of a batch by table and refuses those that Check
// would have refused.
func (s *Sink) groupWrites(writes []Write) ([]*group, error) {
	var groups []*group
	byTable := map[*layout]*group{}
	for i := range writes {
		w := &writes[i]
		if w.table == nil || w.err != nil {
			return nil, fmt.Errorf("%w: %w", framework.ErrRefused, s.check(w))
		}
		g := byTable[w.table]
		if g == nil {
			b, err := s.bound(w.table)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", framework.ErrRefused, err)
			}
			g = &group{table: b}
			byTable[w.table] = g
			groups = append(groups, g)
		}
		if err := g.table.check(w); err != nil {
			return nil, err
		}
		g.writes = append(g.writes, w)
	}
	return groups, nil
}

// write writes runs of the same operation with as few statements as possible.
func (g *group) write(ctx context.Context, d dialect, w *writer) error {
	for rest := g.writes; len(rest) > 0; {
		run := 1
		for run < len(rest) && rest[run].op == rest[0].op {
			run++
		}
		if err := d.write(ctx, w, g.table, rest[:run]); err != nil {
			return err
		}
		rest = rest[run:]
	}
	return nil
}
