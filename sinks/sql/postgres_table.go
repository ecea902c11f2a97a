package sql

import (
	"context"
	stdsql "database/sql"
	"errors"
)

// describe reads the table from PostgreSQL's catalogue. A name without a schema
// is looked up in the search_path, as every statement does.
func (postgres) describe(ctx context.Context, q querier, table string) (*tableInfo, error) {
	info := &tableInfo{columns: map[string]columnInfo{}}
	var id int64
	err := q.QueryRowContext(ctx, `
		SELECT oid::bigint, CASE relkind WHEN 'r' THEN 'table' WHEN 'p' THEN 'table' WHEN 'v' THEN 'view'
			WHEN 'm' THEN 'materialized view' WHEN 'f' THEN 'foreign table' ELSE 'relation of kind ' || relkind::text END,
			NOT relrowsecurity AND NOT relhasrules
		FROM pg_class WHERE oid = to_regclass($1)`, quoteTable(table)).Scan(&id, &info.kind, &info.copies)
	if errors.Is(err, stdsql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := info.readPostgresColumns(ctx, q, id); err != nil {
		return nil, err
	}
	return info, info.readPostgresIndexes(ctx, q, id)
}

func (t *tableInfo) readPostgresColumns(ctx context.Context, q querier, id int64) error {
	rows, err := q.QueryContext(ctx, `
		SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull,
			a.atthasdef OR a.attidentity <> '', a.attgenerated <> '' OR a.attidentity = 'a', NOT coalesce(c.collisdeterministic, true)
		FROM pg_attribute a LEFT JOIN pg_collation c ON c.oid = a.attcollation
		WHERE a.attrelid = $1::bigint::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`, id)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var c columnInfo
		if err := rows.Scan(&name, &c.declared, &c.notNull, &c.automatic, &c.generated, &c.loose); err != nil {
			return err
		}
		t.columns[name] = c
		t.order = append(t.order, name)
	}
	return rows.Err()
}

// readPostgresIndexes adds the unique indexes that cover whole columns of all
// rows, and are looked at by each statement: what ON CONFLICT can use.
func (t *tableInfo) readPostgresIndexes(ctx context.Context, q querier, id int64) error {
	rows, err := q.QueryContext(ctx, `
		SELECT i.indexrelid::bigint, a.attname::text
		FROM pg_index i
			CROSS JOIN LATERAL unnest((i.indkey::int2[])[0:i.indnkeyatts - 1]) k (attnum)
			JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
		WHERE i.indrelid = $1::bigint::oid AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
		ORDER BY i.indexrelid`, id)
	if err != nil {
		return err
	}
	defer rows.Close()
	var last int64
	for rows.Next() {
		var index int64
		var column string
		if err := rows.Scan(&index, &column); err != nil {
			return err
		}
		if index != last {
			t.unique = append(t.unique, nil)
			last = index
		}
		set := &t.unique[len(t.unique)-1]
		*set = append(*set, column)
	}
	return rows.Err()
}
