package sql

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockstep-stream/lockstep/framework"
)

// group is the writes of a batch to one table, in order. Grouping by table turns
// the usual mixture of writes into long runs, which few statements write; the
// order of two writes matters only within a table.
type group struct {
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
			if _, err := s.bound(w.table); err != nil {
				return nil, fmt.Errorf("%w: %w", framework.ErrRefused, err)
			}
			g = &group{}
			byTable[w.table] = g
			groups = append(groups, g)
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
		if err := writeRun(ctx, d, w, rest[:run]); err != nil {
			return err
		}
		rest = rest[run:]
	}
	return nil
}

func writeRun(ctx context.Context, d dialect, w *writer, run []*Write) error {
	first := run[0]
	args := make([]any, 0, maxRows*len(first.values))
	for rows := rowsPerStatement(d, len(first.values)); len(run) > 0; rows /= 2 {
		if len(run) < rows {
			continue
		}
		for len(run) >= rows {
			if err := ctx.Err(); err != nil {
				return err
			}
			args = args[:0]
			for _, write := range run[:rows] {
				args = append(args, write.values...)
			}
			if _, err := w.run(statement{table: first.table, op: first.op, rows: rows}, args); err != nil {
				return blame(d, w, run[:rows], err)
			}
			run = run[rows:]
		}
	}
	return nil
}

// blame finds the row for which a statement failed, by writing the rows one by
// one: the failed statement has left no trace, and the transaction is going to be
// rolled back in any case.
func blame(d dialect, w *writer, rows []*Write, err error) error {
	if d.reason(err) != reasonRefused {
		return err
	}
	for _, row := range rows {
		if _, rowErr := w.run(statement{table: row.table, op: row.op, rows: 1}, row.values); rowErr != nil {
			return &RowError{Table: row.table.name, Row: row.name(), Err: rowErr}
		}
	}
	return errors.Join(framework.ErrRefused, err)
}
