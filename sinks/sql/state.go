package sql

import (
	"bytes"
	"context"
	stdsql "database/sql"
	"strings"

	"github.com/lockstep-stream/lockstep/framework"
)

// ownTable describes one of the sink's own tables, which is written like one of
// the user's. Each column is given with its type in PostgreSQL, the first ones are
// the key. It need not be compared with the database: the format tells what it is.
func ownTable(name string, keys int, columns ...string) *boundTable {
	t := &boundTable{layout: &layout{name: name}}
	for i, c := range columns {
		column, declared, _ := strings.Cut(c, " ")
		t.fields = append(t.fields, field{column: column, key: i < keys})
		t.bound = append(t.bound, boundColumn{columnInfo: columnInfo{declared: declared}})
		if i < keys {
			t.keys = append(t.keys, i)
		}
	}
	return t
}

// stateWrites turns the entries of a batch into writes; a nil value removes its
// key. No two entries have the same key, so that removals may come last, and the
// rest be one run.
func (c *claim) stateWrites(entries []framework.StateEntry) []*Write {
	d, table := c.sink.dialect, c.sink.dialect.stateTable()
	var stored, removed []*Write
	for i := range entries {
		e := &entries[i]
		lane, key := []any{c.id, e.Operator, e.Window}, d.stateKey(notNil(e.Key))
		if e.Value == nil {
			removed = append(removed, &Write{table: table.layout, op: opDelete, values: append(lane, key[0])})
		} else {
			stored = append(stored, &Write{table: table.layout, op: opUpsert, values: append(append(lane, key...), e.Value)})
		}
	}
	return append(stored, removed...)
}

// notNil stores a nil key as an empty one: they are the same key.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// keysPerQuery is how many keys one query asks for.
const keysPerQuery = 256

// stateGroup is the part of a key that a query has in common.
type stateGroup struct {
	operator string
	window   int64
}

// Load asks for many keys of an operator and window at once. It reads beside a
// save in flight without waiting for it, from the last committed state.
func (c *claim) Load(ctx context.Context, keys []framework.StateKey) ([][]byte, error) {
	values := make([][]byte, len(keys))
	places := map[stateGroup][]int{} // which keys are in a group
	for i, k := range keys {
		g := stateGroup{k.Operator, k.Window}
		places[g] = append(places[g], i)
	}
	err := c.sink.call(ctx, func(ctx context.Context) error {
		for g, all := range places {
			for start := 0; start < len(all); start += keysPerQuery {
				part := all[start:min(start+keysPerQuery, len(all))]
				if err := c.loadPart(ctx, g, keys, part, values); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, c.wrap("load", err)
	}
	return values, nil
}

// loadPart fills in the values of the keys at the given places.
func (c *claim) loadPart(ctx context.Context, g stateGroup, keys []framework.StateKey, places []int, values [][]byte) error {
	d := c.sink.dialect
	args := []any{c.id, g.operator, g.window}
	for _, i := range places {
		args = append(args, d.stateKey(notNil(keys[i].Key))[0])
	}
	query := `SELECT key, value FROM lockstep_state WHERE lane_id = ? AND operator = ? AND win = ? AND ` +
		d.stateTable().fields[3].column + ` IN (` + strings.TrimSuffix(strings.Repeat("?, ", len(places)), ", ") + `)`
	rows, err := c.sink.pools.read.QueryContext(ctx, inDialect(d, query), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	found := make(map[string][]byte, len(places))
	for rows.Next() {
		var key, value stdsql.RawBytes // the driver's memory, copied below
		if err := rows.Scan(&key, &value); err != nil {
			return err
		}
		found[string(key)] = append([]byte{}, value...) // not nil, also if empty
	}
	for _, i := range places {
		values[i] = bytes.Clone(found[string(keys[i].Key)])
	}
	return rows.Err()
}
