//go:build integration

package sql_test

import (
	"database/sql/driver"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/integration/servers"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/sql"
)

func TestPostgresTablesThatDoNotFitAreRefusedBeforeAnythingIsSaved(t *testing.T) {
	const id = "id BIGINT PRIMARY KEY"
	addr := servers.Postgres(t)
	for name, test := range map[string]struct {
		schema string
		table  sql.AnyTable
		want   string
	}{
		"no such table":          {`CREATE TABLE other (id BIGINT)`, sql.NewTable[oneColumn[int]]("t"), `table "t": it does not exist`},
		"a name in capitals":     {`CREATE TABLE t (` + id + `, v BIGINT)`, sql.NewTable[oneColumn[int]]("T"), `table "T": it does not exist`},
		"no such schema":         {`CREATE TABLE t (` + id + `, v BIGINT)`, sql.NewTable[oneColumn[int]]("nowhere.t"), `table "nowhere.t": it does not exist`},
		"a view":                 {`CREATE VIEW t AS SELECT 1 AS id, 2 AS v`, sql.NewTable[oneColumn[int]]("t"), "it is a view"},
		"no such column":         {`CREATE TABLE t (` + id + `, w INTEGER)`, sql.NewTable[oneColumn[int]]("t"), `column "v": it does not exist; the table has id, w`},
		"a column in capitals":   {`CREATE TABLE t (` + id + `, "V" INTEGER)`, sql.NewTable[oneColumn[int]]("t"), `column "v": it does not exist; the table has id, V`},
		"text for an integer":    {`CREATE TABLE t (` + id + `, v TEXT)`, sql.NewTable[oneColumn[int]]("t"), `column "v": it is declared text, which would not keep integers as they are; declare it bigint`},
		"integer for text":       {`CREATE TABLE t (` + id + `, v BIGINT)`, sql.NewTable[oneColumn[string]]("t"), "declare it text"},
		"integer for a boolean":  {`CREATE TABLE t (` + id + `, v BIGINT)`, sql.NewTable[oneColumn[bool]]("t"), "declare it boolean"},
		"real for a float":       {`CREATE TABLE t (` + id + `, v REAL)`, sql.NewTable[oneColumn[float64]]("t"), "declare it double precision"},
		"numeric for a float":    {`CREATE TABLE t (` + id + `, v NUMERIC(10,2))`, sql.NewTable[oneColumn[float64]]("t"), "declared numeric(10,2)"},
		"text for bytes":         {`CREATE TABLE t (` + id + `, v TEXT)`, sql.NewTable[oneColumn[[]byte]]("t"), "declare it bytea"},
		"blanks for text":        {`CREATE TABLE t (` + id + `, v CHAR(5))`, sql.NewTable[oneColumn[string]]("t"), "declared character(5)"},
		"no zone for a time":     {`CREATE TABLE t (` + id + `, v TIMESTAMP)`, sql.NewTable[oneColumn[time.Time]]("t"), "declare it timestamp with time zone"},
		"seconds for a time":     {`CREATE TABLE t (` + id + `, v TIMESTAMPTZ(0))`, sql.NewTable[oneColumn[time.Time]]("t"), "declared timestamp(0) with time zone"},
		"JSON for any value":     {`CREATE TABLE t (` + id + `, v JSONB)`, sql.NewTable[oneColumn[anyValue]]("t"), "declared jsonb, which the sink cannot write"},
		"a column left out":      {`CREATE TABLE t (` + id + `, v BIGINT, must TEXT NOT NULL)`, sql.NewTable[oneColumn[int]]("t"), `column "must": it is NOT NULL without a default`},
		"a generated column":     {`CREATE TABLE t (` + id + `, v BIGINT GENERATED ALWAYS AS (id + 1) STORED)`, sql.NewTable[oneColumn[int]]("t"), "generated"},
		"an identity":            {`CREATE TABLE t (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v BIGINT)`, sql.NewTable[oneColumn[int]]("t"), "generated"},
		"a key that is none":     {`CREATE TABLE t (id BIGINT, v BIGINT)`, sql.NewTable[oneColumn[int]]("t"), "the key fields (id) are not its primary key"},
		"half a key":             {`CREATE TABLE t (id BIGINT, v BIGINT, PRIMARY KEY (id, v))`, sql.NewTable[oneColumn[int]]("t"), "the key fields (id) are not"},
		"a partial key":          {`CREATE TABLE t (id BIGINT, v BIGINT); CREATE UNIQUE INDEX i ON t (id) WHERE v > 0`, sql.NewTable[oneColumn[int]]("t"), "are not its primary key"},
		"a key of an expression": {`CREATE TABLE t (id BIGINT, v BIGINT); CREATE UNIQUE INDEX i ON t (abs(id))`, sql.NewTable[oneColumn[int]]("t"), "are not its primary key"},
		"a key checked later":    {`CREATE TABLE t (id BIGINT PRIMARY KEY DEFERRABLE, v BIGINT)`, sql.NewTable[oneColumn[int]]("t"), "are not its primary key"},
		"a key without case": {`CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
			CREATE TABLE t (k TEXT COLLATE nocase PRIMARY KEY, v TEXT)`, sql.NewTable[keyValue]("t"), "takes texts that differ for equal"},
		"DDL that fails": {`CREATE TABLE t (id BIGINT`, sql.NewTable[oneColumn[int]]("t"), "Config.Schema[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := sql.Open(t.Context(), sql.Config{DSN: postgresURL(addr, postgresDatabase(t)), Schema: []string{test.schema}, Tables: []sql.AnyTable{test.table}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close(t.Context())
			err = s.Migrate(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Migrate returned %v, want %q", err, test.want)
			}
			var se *sql.SchemaError
			if name != "DDL that fails" && (!errors.As(err, &se) || !errors.Is(err, framework.ErrConfig)) {
				t.Errorf("Migrate returned %T, want a *SchemaError that is an ErrConfig", err)
			}
			if _, err := s.Claim(t.Context(), "p", orders(0), offsetstore.At(0)); !errors.Is(err, framework.ErrConfig) {
				t.Errorf("Claim returned %v, want ErrConfig", err)
			}
		})
	}
}

// anyValue chooses the kind of its value at run time.
type anyValue struct{ v any }

func (a anyValue) Value() (driver.Value, error) { return a.v, nil }

type postgresTypes struct {
	common
	Bool     bool      `db:"bool"`
	Small    int8      `db:"small"`
	Unsigned uint32    `db:"unsigned"`
	Float    float64   `db:"float"`
	Text     string    `db:"te?xt"`
	Bytes    []byte    `db:"bytes"`
	Time     time.Time `db:"time"`
	Millis   time.Time `db:"millis,unixmilli"`
	Pointer  *string   `db:"Pointer"`
	Custom   celsius   `db:"custom"`
	Any      anyValue  `db:"any"`
}

func TestPostgresValuesOfEveryTypeReadBackUnchanged(t *testing.T) {
	database := postgresDatabase(t)
	table := sql.NewTable[postgresTypes]("app.Types")
	s := openSink(t, sql.Config{DSN: postgresURL(servers.Postgres(t), database), Tables: []sql.AnyTable{table}, Schema: []string{
		`CREATE SCHEMA IF NOT EXISTS app; CREATE TABLE IF NOT EXISTS app."Types" (
		id BIGINT PRIMARY KEY, bool BOOLEAN, small SMALLINT, unsigned BIGINT, float DOUBLE PRECISION, "te?xt" TEXT, bytes BYTEA,
		time TIMESTAMPTZ, millis BIGINT, "Pointer" VARCHAR(4), custom BIGINT, "any" TIMESTAMPTZ)`}})
	word := "wörd"
	at := time.Date(2024, 2, 29, 23, 59, 59, 123456789, time.FixedZone("", 3600))
	b := eventBatch(0, 0, 0)
	b.Writes = []sql.Write{
		table.Insert(postgresTypes{common: common{2}, Text: "is replaced"}),
		table.Upsert(postgresTypes{common: common{1}, Bool: true, Small: -128, Unsigned: math.MaxUint32, Float: math.Inf(1), Text: "0x'\\ü", Bytes: []byte{}, Time: at, Millis: at, Pointer: &word, Custom: 36.6, Any: anyValue{at}}),
		table.Upsert(postgresTypes{common: common{2}, Text: "is replaced again"}),
		table.Upsert(postgresTypes{common: common{2}, Float: math.SmallestNonzeroFloat64}),
		table.Insert(postgresTypes{common: common{3}}),
		table.Delete(postgresTypes{common: common{3}}),
		table.Delete(postgresTypes{common: common{3}}),
	}
	if err := claimLane(t, s, 0).Save(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	var got string
	const all = `SELECT string_agg(t::text, ' ' ORDER BY id) FROM app."Types" t`
	conn := openPostgres(t, database)
	execPostgres(t, conn, `SET timezone = 'UTC'`)
	if err := conn.QueryRow(t.Context(), all).Scan(&got); err != nil {
		t.Fatal(err)
	}
	const want = `(1,t,-128,4294967295,Infinity,"0x'\\ü","\\x","2024-02-29 22:59:59.123456+00",1709247599123,wörd,36600,"2024-02-29 22:59:59.123456+00") ` +
		`(2,f,0,0,5e-324,"",,"0001-01-01 00:00:00+00",-62135596800000,,0,)`
	if got != want {
		t.Errorf("the rows are\n%s\nwant\n%s", got, want)
	}
}

func TestPostgresCheckRefusesWhatTheServerWould(t *testing.T) {
	type narrow struct {
		Key   string   `db:"k,key"`
		Small int64    `db:"small"`
		Int   int64    `db:"int"`
		Short string   `db:"short"`
		Any   anyValue `db:"any"`
	}
	table := sql.NewTable[narrow]("t")
	s := openSink(t, sql.Config{
		DSN: postgresURL(servers.Postgres(t), postgresDatabase(t)), Tables: []sql.AnyTable{table},
		Schema: []string{`CREATE TABLE IF NOT EXISTS t (k TEXT PRIMARY KEY, small SMALLINT, int INTEGER, short VARCHAR(3), "any" BOOLEAN NOT NULL)`},
	})
	c := claimLane(t, s, 0) // the tables have been compared from here on
	good := narrow{Key: "k", Small: math.MaxInt16, Int: math.MinInt32, Short: "äöü", Any: anyValue{true}}
	with := func(change func(*narrow)) narrow {
		n := good
		change(&n)
		return n
	}
	for want, n := range map[string]narrow{
		`column "k": batch refused by the sink: text "a\x00b" has a NUL at byte 1`: with(func(n *narrow) { n.Key = "a\x00b" }),
		`key (k): batch refused by the sink: 3008 bytes`:                           with(func(n *narrow) { n.Key = strings.Repeat("k", 3000) }),
		`column "small": batch refused by the sink: 32768 is not between`:          with(func(n *narrow) { n.Small++ }),
		`column "int": batch refused by the sink: -2147483649 is not between`:      with(func(n *narrow) { n.Int-- }),
		`column "short": batch refused by the sink: text "äöüß" has 4 characters`:  with(func(n *narrow) { n.Short = "äöüß" }),
		`column "any": batch refused by the sink: a value of int64 was given`:      with(func(n *narrow) { n.Any.v = int64(1) }),
		`column "any": batch refused by the sink: the column is NOT NULL`:          with(func(n *narrow) { n.Any.v = nil }),
	} {
		w := table.Upsert(n)
		if _, err := s.Check(w); !errors.Is(err, framework.ErrRefused) || !strings.Contains(err.Error(), want) {
			t.Errorf("Check returned %v, want ErrRefused with %q", err, want)
		}
		b := eventBatch(0, 0, 0)
		b.Writes = []sql.Write{table.Upsert(good), w}
		wantNotSaved(t, c.Save(t.Context(), b), framework.ErrRefused, false)
	}
	b := eventBatch(0, 0, 0)
	b.Writes = []sql.Write{table.Upsert(good)}
	if _, err := s.Check(b.Writes[0]); err != nil {
		t.Error(err)
	}
	if err := c.Save(t.Context(), b); err != nil {
		t.Error(err)
	}
}

func TestPostgresRefusedRowIsNamed(t *testing.T) {
	database := postgresDatabase(t)
	s := openPostgresSink(t, servers.Postgres(t), database)
	conn := openPostgres(t, database)
	c := claimLane(t, s, 0)
	if err := c.Save(t.Context(), eventBatch(0, 0, 40)); err != nil {
		t.Fatal(err)
	}
	execPostgres(t, conn, `ALTER TABLE events ADD CHECK (health < 1000)`)
	for want, w := range map[string]sql.Write{
		"partition=0, record_offset=17": events.Insert(event{Offset: 17}),
		"0, 70, source-17, 1000":        events.Insert(event{Offset: 70, Source: "source-17", Health: 1000}),
	} {
		b := eventBatch(0, 40, 90)
		b.Writes[30] = w
		err := c.Save(t.Context(), b)
		wantNotSaved(t, err, framework.ErrRefused, false)
		var row *sql.RowError
		if !errors.As(err, &row) || row.Table != "events" || row.Row != want {
			t.Errorf("the error does not name the row %s: %v", want, err)
		}
	}
	if at := wantPostgresAgreement(t, s, conn, 0); at != 40 {
		t.Errorf("the position is %d, want 40", at)
	}
}

func TestPostgresTableChangedUnderARunningLaneIsNoFaultOfTheRecords(t *testing.T) {
	database := postgresDatabase(t)
	s := openPostgresSink(t, servers.Postgres(t), database)
	conn := openPostgres(t, database)
	c := claimLane(t, s, 0)
	if err := c.Save(t.Context(), eventBatch(0, 0, 5)); err != nil {
		t.Fatal(err)
	}
	execPostgres(t, conn, `ALTER TABLE events RENAME COLUMN health TO wealth`)
	wantNotSaved(t, c.Save(t.Context(), eventBatch(0, 5, 10)), framework.ErrConfig, false)
	execPostgres(t, conn, `ALTER TABLE events RENAME COLUMN wealth TO health`)
	if err := c.Save(t.Context(), eventBatch(0, 5, 10)); err != nil {
		t.Fatalf("after the column is back: %v", err)
	}
	wantPostgresAgreement(t, s, conn, 0)
}
