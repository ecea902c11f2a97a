//go:build integration

package cassandra

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gocql/gocql"
)

type reading struct {
	Sensor string           `cql:"sensor,partition"`
	Seq    int32            `cql:"seq,clustering"`
	Value  Optional[int64]  `cql:"value"`
	Note   Optional[string] `cql:"note"`
	Unit   *string          `cql:"unit"`
}

const readingSchema = `CREATE TABLE IF NOT EXISTS readings (
	sensor text, seq int, value bigint, note text, unit text, PRIMARY KEY (sensor, seq));`

var readings = NewTable[reading]("readings")

// stored is a reading as it is in the table, nil for null.
type stored struct {
	value      *int64
	note, unit *string
}

// read returns the row of a sensor, nil if there is none.
func read(t *testing.T, s *gocql.Session, sensor string) *stored {
	t.Helper()
	var r stored
	err := s.Query("SELECT value, note, unit FROM readings WHERE sensor = ? AND seq = 1", sensor).Scan(&r.value, &r.note, &r.unit)
	if errors.Is(err, gocql.ErrNotFound) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return &r
}

type traceID chan []byte

func (c traceID) Trace(id []byte) { c <- bytes.Clone(id) }

// tombstones returns how many tombstones the server meets when it reads a sensor,
// as its own trace says, which is written a moment later.
func tombstones(t *testing.T, s *gocql.Session, sensor string) string {
	t.Helper()
	id := make(traceID, 1)
	err := s.Query("SELECT value, note, unit FROM readings WHERE sensor = ?", sensor).Trace(id).Exec()
	if err != nil {
		t.Fatal(err)
	}
	session := <-id
	count := regexp.MustCompile(`and (\d+) tombstone cells`)
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		iter := s.Query("SELECT activity FROM system_traces.events WHERE session_id = ?", session).Consistency(gocql.One).Iter()
		for activity := ""; iter.Scan(&activity); {
			if m := count.FindStringSubmatch(activity); m != nil {
				_ = iter.Close()
				return m[1]
			}
		}
		if err := iter.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the trace of the read does not count tombstones")
	return ""
}

func text(p *string) string {
	if p == nil {
		return "null"
	}
	return *p
}

func TestUnsetKeepsTheValueWithoutTombstoneAndClearRemovesIt(t *testing.T) {
	cfg, s := withTables(t, readingSchema)
	c := checked(t, cfg, s, readings)
	unit := "K"
	key := reading{Sensor: "a", Seq: 1}
	full := reading{Sensor: "a", Seq: 1, Value: Set[int64](0), Note: Set("n"), Unit: &unit}

	applied(t, c, 100, time.Now(), readings.Insert(full))
	applied(t, c, 200, time.Now(), readings.Insert(key), readings.Upsert(reading{Sensor: "a", Seq: 1, Value: Set[int64](7)}))
	row, n := read(t, s, "a"), tombstones(t, s, "a")
	if row == nil || row.value == nil || *row.value != 7 || text(row.note) != "n" || text(row.unit) != "K" || n != "0" {
		t.Fatalf("after unset: got %+v with %s tombstones, want value 7, note n, unit K and no tombstone", row, n)
	}

	applied(t, c, 300, time.Now(), readings.Upsert(reading{Sensor: "a", Seq: 1, Note: Clear[string]()}))
	row, n = read(t, s, "a"), tombstones(t, s, "a")
	if row == nil || row.note != nil || *row.value != 7 || n != "1" {
		t.Fatalf("after clear: got %+v with %s tombstones, want note null and one tombstone", row, n)
	}
}

func TestOnlyInsertMarksTheRow(t *testing.T) {
	cfg, s := withTables(t, readingSchema)
	c := checked(t, cfg, s, readings)
	value := reading{Sensor: "upserted", Seq: 1, Value: Set[int64](1)}
	cleared := reading{Sensor: "upserted", Seq: 1, Value: Clear[int64]()}
	applied(t, c, 100, time.Now(), readings.Upsert(value), readings.Upsert(cleared))
	if row := read(t, s, "upserted"); row != nil {
		t.Errorf("a row whose only upserted value was cleared still exists: %+v", row)
	}
	value.Sensor, cleared.Sensor = "inserted", "inserted"
	applied(t, c, 100, time.Now(), readings.Insert(value), readings.Upsert(cleared))
	if row := read(t, s, "inserted"); row == nil || row.value != nil {
		t.Errorf("an inserted row must outlive its values, got %+v", row)
	}
}

func TestApplyingAgainAndLateChangesNothing(t *testing.T) {
	cfg, s := withTables(t, readingSchema)
	c := checked(t, cfg, s, readings)
	old := readings.Insert(reading{Sensor: "a", Seq: 1, Value: Set[int64](1)})
	del := readings.Delete(reading{Sensor: "a", Seq: 1})
	young := readings.Insert(reading{Sensor: "a", Seq: 1, Value: Set[int64](2)})
	applied(t, c, 100, time.Now(), old, del, young)
	applied(t, c, 100, time.Now(), old, del, young)
	applied(t, c, 100, time.Now(), old)
	row := read(t, s, "a")
	if row == nil || row.value == nil || *row.value != 2 {
		t.Fatalf("got %+v, want value 2", row)
	}
	applied(t, c, 200, time.Now(), del)
	applied(t, c, 100, time.Now(), old, del, young)
	if row := read(t, s, "a"); row != nil {
		t.Fatalf("a late save brought a deleted row back: %+v", row)
	}
}

func TestValuesExpireAtTheirMomentHoweverLateTheyAreApplied(t *testing.T) {
	cfg, s := withTables(t, readingSchema)
	c := checked(t, cfg, s, readings)
	now := time.Now()
	r := reading{Sensor: "a", Seq: 1, Value: Set[int64](5)}
	applied(t, c, 100, now, readings.Insert(r).ExpireAt(now.Add(100*time.Second)))
	var ttl int
	if err := s.Query("SELECT TTL(value) FROM readings WHERE sensor = 'a' AND seq = 1").Scan(&ttl); err != nil || ttl < 90 || ttl > 101 {
		t.Fatalf("TTL is %d (%v), want about 100", ttl, err)
	}
	applied(t, c, 100, now.Add(60*time.Second), readings.Insert(r).ExpireAt(now.Add(100*time.Second)))

	// What expired before it was applied hides what was there, and shows nothing.
	lasting, gone := reading{Sensor: "b", Seq: 1, Value: Set[int64](1), Note: Set("old")}, reading{Sensor: "b", Seq: 1, Value: Set[int64](2), Note: Set("new")}
	applied(t, c, 100, now, readings.Insert(lasting), readings.Insert(gone).ExpireAt(now.Add(-time.Hour)))
	if row := read(t, s, "b"); row != nil && (row.value != nil || row.note != nil) {
		t.Fatalf("an expired write shows %+v", row)
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		if row := read(t, s, "b"); row == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the row of an expired insert never ends")
		}
		time.Sleep(200 * time.Millisecond)
	}
	// The row of an expired upsert goes on, without the value.
	lasting.Sensor, gone.Sensor = "c", "c"
	gone.Note = Optional[string]{}
	applied(t, c, 100, now, readings.Insert(lasting), readings.Upsert(gone).ExpireAt(now.Add(-time.Hour)))
	time.Sleep(2 * time.Second) // longer than the shortest TTL there is
	if row := read(t, s, "c"); row == nil || row.value != nil || text(row.note) != "old" {
		t.Fatalf("got %+v, want the note only", row)
	}
}

func TestTheLastExpiryWeAllowIsAccepted(t *testing.T) {
	cfg, s := withTables(t, readingSchema)
	c := checked(t, cfg, s, readings)
	applied(t, c, 100, time.Now(), readings.Insert(reading{Sensor: "a", Seq: 1}).ExpireAt(time.Unix(maxExpiry, 0)))
}

type textKeys struct {
	A string `cql:"a,partition"`
	B string `cql:"b,partition"`
	C string `cql:"c,clustering"`
	D string `cql:"d,clustering"`
	V []byte `cql:"v"`
}

// TestTheServerAcceptsAllThatCheckAccepts tries the limits that Check enforces.
func TestTheServerAcceptsAllThatCheckAccepts(t *testing.T) {
	cfg, s := withTables(t, `CREATE TABLE t (a text, b text, c text, d text, v blob, PRIMARY KEY ((a, b), c, d));
		CREATE TABLE one (k text PRIMARY KEY, v blob);`)
	type oneKey struct {
		K string `cql:"k,partition"`
		V []byte `cql:"v"`
	}
	table, one := NewTable[textKeys]("t"), NewTable[oneKey]("one")
	c := checked(t, cfg, s, table, one)
	long := strings.Repeat("x", maxKeyBytes)
	for name, w := range map[string]Write{
		"longest partition key":           one.Insert(oneKey{K: long}),
		"longest composite partition key": table.Insert(textKeys{A: long[:40000], B: long[:maxKeyBytes-40000-6]}),
		"one empty part of a key":         table.Insert(textKeys{B: "b"}),
		"empty clustering key":            table.Insert(textKeys{A: "a", B: "b"}),
		"longest clustering values":       table.Insert(textKeys{A: "a", C: long[:30000], D: long[:35535]}),
		"largest value":                   one.Insert(oneKey{K: "k", V: make([]byte, defaultMaxWrite-100)}),
		"delete by the longest key":       one.Delete(oneKey{K: long}),
		"all parts of a key empty":        table.Insert(textKeys{C: "c"}),
		"longest everywhere":              table.Insert(textKeys{A: long[:65000], C: long[:65000], V: make([]byte, 900000)}),
	} {
		t.Run(name, func(t *testing.T) {
			if err := w.check(defaultMaxWrite); err != nil {
				t.Fatalf("refused by Check: %v", err)
			}
			applied(t, c, 100, time.Now(), w)
		})
	}
}

// TestTheServerRefusesWhatCheckRefuses shows that the limits are not stricter
// than need be: one byte more is refused by the server too.
func TestTheServerRefusesWhatCheckRefuses(t *testing.T) {
	_, s := withTables(t, `CREATE TABLE t (a text, b text, c text, d text, v blob, PRIMARY KEY ((a, b), c, d));
		CREATE TABLE one (k text PRIMARY KEY, v blob);`)
	long := strings.Repeat("x", maxKeyBytes)
	for name, args := range map[string][]any{
		"INSERT INTO one (k) VALUES (?)":                {long + "x"},
		"INSERT INTO t (a, b, c, d) VALUES (?,?,'','')": {long[:40000], long[:maxKeyBytes-40000-5]},
		"INSERT INTO t (a, b, c, d) VALUES ('','',?,?)": {long, "x"},
		"INSERT INTO one (k, v) VALUES (?, 0x)":         {""},
	} {
		if err := s.Query(name, args...).Exec(); err == nil || !refused(err) {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
	}
}
