package memory

import (
	"fmt"
	"maps"

	"github.com/lockstep-stream/lockstep/framework"
)

// Row is a write with a table and a key, for pipelines whose outputs replace
// each other. Delete removes the row, and Value is ignored then.
type Row struct {
	Table  string
	Key    string
	Value  any
	Delete bool
}

// Check refuses a row without a table or key and returns the size it counts
// with, in bytes. Values other than strings and bytes count as eight.
func (r Row) Check() (int, error) {
	if r.Table == "" || r.Key == "" {
		return 0, fmt.Errorf("%w: row %q of table %q: table and key must not be empty", framework.ErrRefused, r.Key, r.Table)
	}
	size := len(r.Table) + len(r.Key)
	switch v := r.Value.(type) {
	case string:
		return size + len(v), nil
	case []byte:
		return size + len(v), nil
	default:
		return size + 8, nil
	}
}

// Rows returns the rows of a table by key, as all saves of all pipelines left
// them.
func Rows(s *Store[Row], table string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := maps.Clone(s.rows[table])
	if rows == nil {
		rows = map[string]any{}
	}
	return rows
}

// applyRows puts rows in their tables, in order. The caller holds s.mu.
func (s *Store[W]) applyRows(rows []Row) {
	for _, r := range rows {
		table := s.rows[r.Table]
		if table == nil {
			table = map[string]any{}
			s.rows[r.Table] = table
		}
		if r.Delete {
			delete(table, r.Key)
		} else {
			table[r.Key] = r.Value
		}
	}
}
