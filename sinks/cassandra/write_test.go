package cassandra

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gocql/gocql"
)

// binding makes the mutation of w as a save would, in a keyspace "ks".
func binding(t *testing.T, w Write) mutation {
	t.Helper()
	if err := w.check(defaultMaxWrite); err != nil {
		t.Fatal(err)
	}
	return mutation{target: w.target.bind("ks", tableID{1}), row: w.row, timestamp: 77, expires: w.expires, op: w.op}
}

// shown is a bound statement as text: numbers for timestamp and TTL, the text of
// values, "-" for unset and "null".
func shown(t *testing.T, e gocql.BatchEntry) string {
	t.Helper()
	var args []string
	for _, a := range e.Args {
		if a == gocql.UnsetValue {
			args = append(args, "-")
			continue
		}
		b, err := gocql.Marshal(gocql.NewNativeType(protocolVersion, gocql.TypeBlob, ""), a)
		switch {
		case err != nil:
			t.Fatal(err)
		case b == nil:
			args = append(args, "null")
		case len(b) == 8:
			args = append(args, fmt.Sprint(binary.BigEndian.Uint64(b)))
		case len(b) == 4:
			args = append(args, fmt.Sprint(binary.BigEndian.Uint32(b)))
		default:
			args = append(args, string(b))
		}
	}
	return e.Stmt + " <- " + strings.Join(args, " ")
}

func TestStatements(t *testing.T) {
	now := time.Unix(1000, 500)
	v := note{K: "k", C: "c", O: Clear[string](), S: "s"}
	for _, tc := range []struct {
		w    Write
		want string
	}{
		{notes.Insert(v), `INSERT INTO "ks"."notes" ("k", "c", "p", "o", "s") VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ? AND TTL ? <- k c - null s 77 0`},
		{notes.Upsert(v), `UPDATE "ks"."notes" USING TIMESTAMP ? AND TTL ? SET "p" = ?, "o" = ?, "s" = ? WHERE "k" = ? AND "c" = ? <- 77 0 - null s k c`},
		{notes.Delete(v), `DELETE FROM "ks"."notes" USING TIMESTAMP ? WHERE "k" = ? AND "c" = ? <- 77 k c`},
		{notes.Insert(v).ExpireAt(time.Unix(1060, 0)), `INSERT INTO "ks"."notes" ("k", "c", "p", "o", "s") VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ? AND TTL ? <- k c - null s 77 60`},
		{notes.Insert(v).ExpireAt(time.Unix(1000, 0)), `INSERT INTO "ks"."notes" ("k", "c", "p", "o", "s") VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ? AND TTL ? <- k c - null null 77 1`},
		{notes.Upsert(v).ExpireAt(time.Unix(9, 0)), `UPDATE "ks"."notes" USING TIMESTAMP ? AND TTL ? SET "p" = ?, "o" = ?, "s" = ? WHERE "k" = ? AND "c" = ? <- 77 1 - null null k c`},
	} {
		m := binding(t, tc.w)
		if got := shown(t, entries([]mutation{m}, now)[0]); got != tc.want {
			t.Errorf("got  %s\nwant %s", got, tc.want)
		}
	}
}

// TestEntriesOfAGroupDoNotShareArguments binds many statements at once, of which
// each must keep its own values, and can be appended to without harm.
func TestEntriesOfAGroupDoNotShareArguments(t *testing.T) {
	var ms []mutation
	var want []string
	for i := range 50 {
		v := note{K: fmt.Sprint("k", i), C: "c", S: fmt.Sprint("s", i)}
		for _, w := range []Write{notes.Insert(v), notes.Upsert(v), notes.Delete(v)} {
			m := binding(t, w)
			m.timestamp = int64(i)
			ms = append(ms, m)
			want = append(want, shown(t, entries([]mutation{m}, time.Unix(1, 0))[0]))
		}
	}
	for i, e := range entries(ms, time.Unix(1, 0)) {
		if got := shown(t, e); got != want[i] {
			t.Fatalf("entry %d: got %s, want %s", i, got, want[i])
		}
		if cap(e.Args) != len(e.Args) {
			t.Fatalf("entry %d: appending to it would overwrite the next", i)
		}
	}
}

func TestPartitionGroupsRowsOfOneCassandraPartition(t *testing.T) {
	table := NewTable[event]("events")
	group := func(topic string, bucket int32, seq int64) []byte {
		m := binding(t, table.Insert(event{Topic: topic, Bucket: bucket, Seq: seq}))
		return m.partition()
	}
	if !bytes.Equal(group("a", 1, 1), group("a", 1, 2)) {
		t.Error("one partition is split")
	}
	all := [][]byte{group("a", 1, 1), group("a", 2, 1), group("b", 1, 1), group("", 1, 1)}
	for i, x := range all {
		if slices.ContainsFunc(all[:i], func(y []byte) bool { return bytes.Equal(x, y) }) {
			t.Errorf("partitions are merged: %x", all)
		}
	}
}
