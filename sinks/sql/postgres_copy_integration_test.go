//go:build integration

package sql_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/integration/servers"
	"github.com/lockstep-stream/lockstep/sinks/sql"
)

// copied has a column of every type that the sink writes.
type copied struct {
	ID    int64     `db:"id,key"`
	Bool  bool      `db:"bool"`
	Small int8      `db:"small"`
	Int   int32     `db:"int"`
	Float float64   `db:"float"`
	Text  *string   `db:"te?xt"`
	Bytes []byte    `db:"bytes"`
	Time  time.Time `db:"time"`
}

const copiedColumns = ` (id BIGINT PRIMARY KEY, bool BOOLEAN, small SMALLINT, int INTEGER, float DOUBLE PRECISION, "te?xt" VARCHAR(9), bytes BYTEA, time TIMESTAMPTZ);`

// Many new rows go by COPY, unless the table does otherwise with a COPY than with
// an INSERT. Either way the rows are the same.
func TestPostgresManyNewRowsAreTheSameByEitherStatement(t *testing.T) {
	const rows = 12_345 // more than one statement takes
	database := postgresDatabase(t)
	conn := openPostgres(t, database)
	tables := map[string]string{
		`app."Copied"`: ``,
		`app.secured`:  `ALTER TABLE app.secured ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON app.secured USING (true);`,
		`app.ruled`:    `CREATE TABLE app.heard (id BIGINT); CREATE RULE r AS ON INSERT TO app.ruled DO ALSO INSERT INTO app.heard VALUES (NEW.id);`,
	}
	lane := int32(0)
	for name, rest := range tables {
		table := sql.NewTable[copied](unquoted(name))
		s := openSink(t, sql.Config{DSN: postgresURL(servers.Postgres(t), database), Tables: []sql.AnyTable{table},
			Schema: []string{`CREATE SCHEMA IF NOT EXISTS app; CREATE TABLE ` + name + copiedColumns + rest}})
		b := eventBatch(lane, 0, 0)
		for i := range int64(rows) {
			b.Writes = append(b.Writes, table.Insert(copiedRow(i)))
		}
		if err := claimLane(t, s, lane).Save(t.Context(), b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		lane++
	}
	for name := range tables {
		var n int
		query := fmt.Sprintf(`SELECT count(*) FROM (SELECT * FROM app."Copied" INTERSECT SELECT * FROM %s) AS same`, name)
		if err := conn.QueryRow(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n != rows {
			t.Errorf("%s and app.\"Copied\" have %d rows in common, want %d", name, n, rows)
		}
	}
	var heard int
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM app.heard`).Scan(&heard); err != nil || heard != rows {
		t.Errorf("the rule was followed %d times (%v), want %d", heard, err, rows)
	}
}

func unquoted(name string) string {
	if name == `app."Copied"` {
		return "app.Copied"
	}
	return name
}

func copiedRow(i int64) copied {
	c := copied{ID: i, Bool: i%2 == 0, Small: int8(i), Int: int32(-i), Float: float64(i) / 3, Time: time.UnixMicro(i * 1e9)}
	if text := fmt.Sprint("wört ", i%1000); i%3 > 0 {
		c.Text, c.Bytes = &text, []byte{0, byte(i), '\\'}
	}
	return c
}

func TestPostgresRowRefusedAmongManyIsNamed(t *testing.T) {
	database := postgresDatabase(t)
	s := openPostgresSink(t, servers.Postgres(t), database)
	c := claimLane(t, s, 0)
	if err := c.Save(t.Context(), eventBatch(0, 0, 40)); err != nil {
		t.Fatal(err)
	}
	b := eventBatch(0, 40, 1040)
	b.Writes[700] = events.Insert(event{Offset: 17})
	err := c.Save(t.Context(), b)
	wantNotSaved(t, err, framework.ErrRefused, false)
	var row *sql.RowError
	if !errors.As(err, &row) || row.Row != "partition=0, record_offset=17" {
		t.Errorf("the error does not name the row: %v", err)
	}
	var n int
	if err := openPostgres(t, database).QueryRow(t.Context(), `SELECT count(*) FROM events`).Scan(&n); err != nil || n != 40 {
		t.Errorf("%d rows (%v), want the 40 of before", n, err)
	}
	if err := c.Save(t.Context(), eventBatch(0, 40, 1040)); err != nil {
		t.Errorf("the same claim could not save afterwards: %v", err)
	}
}
