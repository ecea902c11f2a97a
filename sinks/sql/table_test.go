package sql_test

import (
	"database/sql/driver"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/sql"
)

// oneColumn is a table of a key and one column of type T.
type oneColumn[T any] struct {
	ID int64 `db:"id,key"`
	V  T     `db:"v"`
}

func TestTablesThatDoNotFitAreRefusedBeforeAnythingIsSaved(t *testing.T) {
	t.Parallel()
	const id = "id INTEGER PRIMARY KEY"
	for name, test := range map[string]struct {
		schema string
		table  sql.AnyTable
		want   string
	}{
		"no such table":          {`CREATE TABLE other (id INTEGER)`, sql.NewTable[oneColumn[int]]("t"), `table "t": it does not exist`},
		"a view":                 {`CREATE VIEW t AS SELECT 1 AS id, 2 AS v`, sql.NewTable[oneColumn[int]]("t"), "it is a view"},
		"no such column":         {`CREATE TABLE t (` + id + `, w)`, sql.NewTable[oneColumn[int]]("t"), `column "v": it does not exist; the table has id, w`},
		"text for an integer":    {`CREATE TABLE t (` + id + `, v TEXT)`, sql.NewTable[oneColumn[int]]("t"), `column "v": it is declared TEXT`},
		"integer for text":       {`CREATE TABLE t (` + id + `, v BIGINT)`, sql.NewTable[oneColumn[string]]("t"), `column "v": it is declared BIGINT`},
		"decimal for text":       {`CREATE TABLE t (` + id + `, v DECIMAL(10,2))`, sql.NewTable[oneColumn[string]]("t"), "NUMERIC affinity"},
		"real for an integer":    {`CREATE TABLE t (` + id + `, v REAL)`, sql.NewTable[oneColumn[int]]("t"), "REAL affinity"},
		"text for bytes":         {`CREATE TABLE t (` + id + `, v VARCHAR(20))`, sql.NewTable[oneColumn[[]byte]]("t"), "declare it BLOB"},
		"integer for a time":     {`CREATE TABLE t (` + id + `, v INTEGER)`, sql.NewTable[oneColumn[time.Time]]("t"), `column "v": it is declared INTEGER`},
		"a column left out":      {`CREATE TABLE t (` + id + `, v INTEGER, must TEXT NOT NULL)`, sql.NewTable[oneColumn[int]]("t"), `column "must": it is NOT NULL without a default`},
		"a generated column":     {`CREATE TABLE t (` + id + `, v INTEGER AS (id + 1))`, sql.NewTable[oneColumn[int]]("t"), "generated"},
		"a key that is none":     {`CREATE TABLE t (id INTEGER, v INTEGER)`, sql.NewTable[oneColumn[int]]("t"), "the key fields (id) are not its primary key"},
		"half a key":             {`CREATE TABLE t (id INTEGER, v INTEGER, PRIMARY KEY (id, v))`, sql.NewTable[oneColumn[int]]("t"), "the key fields (id) are not"},
		"a partial key":          {`CREATE TABLE t (id INTEGER, v INTEGER); CREATE UNIQUE INDEX i ON t (id) WHERE v > 0`, sql.NewTable[oneColumn[int]]("t"), "are not its primary key"},
		"a key of an expression": {`CREATE TABLE t (id INTEGER, v INTEGER); CREATE UNIQUE INDEX i ON t (abs(id))`, sql.NewTable[oneColumn[int]]("t"), "are not its primary key"},
		"DDL that fails":         {`CREATE TABLE t (id INTEGER`, sql.NewTable[oneColumn[int]]("t"), "Config.Schema[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := sql.Open(t.Context(), sql.Config{DSN: "sqlite://" + newPath(t), Schema: []string{test.schema}, Tables: []sql.AnyTable{test.table}})
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
			// And a program that does not migrate learns it by its first claim.
			if _, err := s.Claim(t.Context(), "p", orders(0), offsetstore.At(0)); err == nil {
				t.Error("Claim returned nil")
			}
		})
	}
}

func TestTablesThatFitAreAccepted(t *testing.T) {
	t.Parallel()
	for name, schema := range map[string]string{
		"strict":            `CREATE TABLE T (ID INT PRIMARY KEY, V INTEGER) STRICT`,
		"a unique index":    `CREATE TABLE t (id INTEGER, v INTEGER, w TEXT DEFAULT 'x' NOT NULL); CREATE UNIQUE INDEX i ON t (id)`,
		"no declared types": `CREATE TABLE t (id UNIQUE, v)`,
		"an assigned row":   `CREATE TABLE t (row INTEGER PRIMARY KEY NOT NULL, id INTEGER UNIQUE, v NUMERIC)`,
	} {
		t.Run(name, func(t *testing.T) {
			table := sql.NewTable[oneColumn[int]]("t")
			s := openSink(t, sql.Config{DSN: "sqlite://" + newPath(t), Schema: []string{schema}, Tables: []sql.AnyTable{table}})
			b := eventBatch(0, 0, 0)
			b.Writes = []sql.Write{table.Insert(oneColumn[int]{1, 1}), table.Upsert(oneColumn[int]{1, 2}), table.Delete(oneColumn[int]{1, 0})}
			if err := claimLane(t, s, 0).Save(t.Context(), b); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStructsThatCannotBeRowsAreRefusedByOpen(t *testing.T) {
	t.Parallel()
	type tagged struct {
		A int `db:"a,primary"`
	}
	type twice struct {
		A int `db:"a"`
		B int `db:"A"`
	}
	type untagged struct{ A int }
	type hidden struct {
		a int `db:"a"` //nolint:unused // its tag is the fault
	}
	type nested struct {
		A map[string]int `db:"a"`
	}
	type milliseconds struct {
		A int `db:"a,unixmilli"`
	}
	type embedsPointer struct {
		*tagged `db:""`
	}
	for want, table := range map[string]sql.AnyTable{
		`unknown option "primary"`:   sql.NewTable[tagged]("t"),
		`two fields have the column`: sql.NewTable[twice]("t"),
		`field A: tag db:""`:         sql.NewTable[untagged]("t"),
		`must be exported`:           sql.NewTable[hidden]("t"),
		`map[string]int cannot be`:   sql.NewTable[nested]("t"),
		`unixmilli is for time`:      sql.NewTable[milliseconds]("t"),
		`int is not a struct`:        sql.NewTable[int]("t"),
		`no field with a db tag`:     sql.NewTable[struct{}]("t"),
		`the name is empty`:          sql.NewTable[event](""),
		`tag db:"" names no column`:  sql.NewTable[embedsPointer]("t"),
	} {
		_, err := sql.Open(t.Context(), sql.Config{DSN: "sqlite://" + newPath(t), Tables: []sql.AnyTable{table}})
		if !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("Open returned %v, want ErrConfig with %q", err, want)
		}
	}
	_, err := sql.Open(t.Context(), sql.Config{DSN: "sqlite://" + newPath(t), Tables: []sql.AnyTable{events, sql.NewTable[event]("events")}})
	if !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), "twice") {
		t.Errorf("Open with a table twice returned %v", err)
	}
}

// celsius has a form of its own in the database.
type celsius float64

func (c celsius) Value() (driver.Value, error) { return int64(c * 1000), nil }

type common struct {
	ID int64 `db:"id,key"`
}

type allTypes struct {
	common
	Bool     bool           `db:"bool"`
	Small    int8           `db:"small"`
	Unsigned uint32         `db:"unsigned"`
	Float    float64        `db:"float"`
	Text     string         `db:"text"`
	Bytes    []byte         `db:"bytes"`
	Time     time.Time      `db:"time"`
	Millis   time.Time      `db:"millis,unixmilli"`
	Pointer  *string        `db:"pointer"`
	Custom   celsius        `db:"custom"`
	Ignored  map[string]int `db:"-"`
	internal int            //nolint:unused // not stored
}

func TestValuesOfEveryTypeReadBackUnchanged(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	table := sql.NewTable[allTypes]("t")
	s := openSink(t, sql.Config{DSN: "sqlite://" + path, Tables: []sql.AnyTable{table}, Schema: []string{`CREATE TABLE t (
		id INTEGER PRIMARY KEY, bool BOOLEAN, small INTEGER, unsigned INTEGER, float REAL, text TEXT, bytes BLOB,
		time TEXT, millis INTEGER, pointer TEXT, custom INTEGER)`}})
	word := "word"
	at := time.Date(2024, 2, 29, 23, 59, 59, 120, time.FixedZone("", 3600))
	b := eventBatch(0, 0, 0)
	b.Writes = []sql.Write{
		table.Insert(allTypes{common: common{1}, Bool: true, Small: -128, Unsigned: math.MaxUint32, Float: 1e300, Text: "0x\x00ü", Bytes: []byte{}, Time: at, Millis: at, Pointer: &word, Custom: 36.6}),
		table.Insert(allTypes{common: common{math.MinInt64}}),
	}
	if err := claimLane(t, s, 0).Save(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	var got string
	const all = `SELECT group_concat(quote(id)||' '||quote(bool)||' '||quote(small)||' '||quote(unsigned)||' '||quote(float)||' '||hex(text)||' '||quote(bytes)||' '||
		quote(time)||' '||quote(millis)||' '||quote(pointer)||' '||quote(custom), '; ') FROM (SELECT * FROM t ORDER BY id DESC)`
	if err := openReader(t, path).QueryRow(all).Scan(&got); err != nil {
		t.Fatal(err)
	}
	want := `1 1 -128 4294967295 1.0e+300 307800C3BC X'' '2024-02-29 22:59:59.000000120+00:00' 1709247599000 'word' 36600; ` +
		`-9223372036854775808 0 0 0 0.0  NULL '0001-01-01 00:00:00.000000000+00:00' -62135596800000 NULL 0`
	if got != want {
		t.Errorf("the rows are\n%s\nwant\n%s", got, want)
	}
}

func TestCheckNamesTheTableAndColumnOfABadWrite(t *testing.T) {
	t.Parallel()
	type nullable struct {
		Key   *string `db:"k,key"`
		Must  *int    `db:"must"`
		Float float64 `db:"f"`
		Big   uint64  `db:"big"`
		Bytes []byte  `db:"bytes"`
	}
	table := sql.NewTable[nullable]("t")
	keyless := sql.NewTable[struct {
		A string `db:"a"`
	}]("keyless")
	s := openSink(t, sql.Config{
		DSN: "sqlite://" + newPath(t), Tables: []sql.AnyTable{table, keyless}, MaxWriteBytes: 1000,
		Schema: []string{`CREATE TABLE t (k TEXT PRIMARY KEY, must INTEGER NOT NULL, f REAL, big INTEGER, bytes BLOB); CREATE TABLE keyless (a TEXT)`},
	})
	key, one := "k", 1
	good := nullable{Key: &key, Must: &one}
	with := func(change func(*nullable)) nullable {
		n := good
		change(&n)
		return n
	}
	claimLane(t, s, 0) // the tables have been compared from here on
	for name, test := range map[string]struct {
		write sql.Write
		want  string
		kind  error
	}{
		"the zero write":   {sql.Write{}, "the write is empty", framework.ErrRefused},
		"NULL in NOT NULL": {table.Insert(with(func(n *nullable) { n.Must = nil })), `table "t", column "must"`, framework.ErrRefused},
		"a NULL key":       {table.Upsert(with(func(n *nullable) { n.Key = nil })), `table "t", column "k"`, framework.ErrRefused},
		"NaN":              {table.Insert(with(func(n *nullable) { n.Float = math.NaN() })), "NaN", framework.ErrRefused},
		"too big a number": {table.Insert(with(func(n *nullable) { n.Big = math.MaxUint64 })), `column "big"`, framework.ErrRefused},
		"too many bytes":   {table.Insert(with(func(n *nullable) { n.Bytes = make([]byte, 1000) })), "MaxWriteBytes is 1000", framework.ErrTooLarge},
		"not UTF-8": {keyless.Insert(struct {
			A string `db:"a"`
		}{"\xff"}), "not valid UTF-8", framework.ErrRefused},
		"upsert, no key": {keyless.Upsert(struct {
			A string `db:"a"`
		}{"a"}), "upsert needs a key", framework.ErrConfig},
		"delete, no key": {keyless.Delete(struct {
			A string `db:"a"`
		}{"a"}), "delete needs a key", framework.ErrConfig},
		"another table": {events.Insert(event{}), "not among Config.Tables", framework.ErrConfig},
	} {
		if _, err := s.Check(test.write); !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: Check returned %v, want %v with %q", name, err, test.kind, test.want)
		}
		b := eventBatch(0, 0, 0)
		b.Writes = []sql.Write{table.Insert(good), test.write}
		if test.kind == framework.ErrTooLarge {
			continue // only a matter of policy
		}
		var se *framework.SaveError
		err := claimLane(t, s, 0).Save(t.Context(), b)
		if !errors.As(err, &se) || !errors.Is(err, framework.ErrRefused) || se.Outcome != framework.NotSaved || se.ClaimSpent {
			t.Errorf("%s: Save returned %v, want a definite refusal", name, err)
		}
	}
	if n, err := s.Check(table.Insert(good)); err != nil || n == 0 {
		t.Errorf("Check of a good write returned %d, %v", n, err)
	}
}
