package cassandra

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
)

var testLimits = blobLimits{chunk: maxChunkBytes, lone: maxChunkBytes / 2, total: 8 << 20}

// openTables binds every target it is asked for, as if the database had exactly
// such tables.
type openTables map[string]*boundTarget

func (o openTables) bound(t *target) (*boundTarget, bool) {
	if o[t.name] == nil {
		o[t.name] = t.bind("ks", tableID{1, byte(len(t.name))})
	}
	return o[t.name], true
}

func (o openTables) resolve(_ context.Context, t *target, id tableID) (*boundTarget, error) {
	return t.bind("ks", id), nil
}

// someWrites returns n writes to two tables, of all kinds and sizes.
func someWrites(n int, r *rand.Rand) []Write {
	events := NewTable[event]("events")
	ws := make([]Write, n)
	for i := range ws {
		v := note{K: fmt.Sprint("key", i), C: "c", S: string(bytes.Repeat([]byte("x"), r.IntN(300)))}
		switch r.IntN(5) {
		case 0:
			ws[i] = notes.Insert(v)
		case 1:
			ws[i] = notes.Upsert(v).ExpireAt(time.Unix(2_000_000_000, 0))
		case 2:
			ws[i] = notes.Delete(v)
		default:
			payload := make([]byte, r.IntN(100))
			for j := range payload {
				payload[j] = byte(r.Uint32())
			}
			ws[i] = events.Insert(event{Topic: "t", Seq: int64(i), Payload: payload})
		}
	}
	return ws
}

// same compares mutations by what they would write.
func same(t *testing.T, got, want []mutation) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d mutations, want %d", len(got), len(want))
	}
	now := time.Unix(1_900_000_000, 0)
	for i := range got {
		g, w := shown(t, entries(got[i:i+1], now)[0]), shown(t, entries(want[i:i+1], now)[0])
		if g != w || got[i].target.id != want[i].target.id {
			t.Fatalf("mutation %d: got %s, want %s", i, g, w)
		}
	}
}

func TestABlobIsDecodedToWhatWasEncoded(t *testing.T) {
	for _, n := range []int{0, 1, 2, 10, 5000} {
		tables := openTables{}
		ws := someWrites(n, rand.New(rand.NewPCG(1, uint64(n))))
		b, ms, err := encodeBlob(ws, 1_700_000_000_000_000, tables, testLimits)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeBlob(t.Context(), b.chunks, b.sum, tables)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, ms)
		for i, m := range ms {
			if m.timestamp != 1_700_000_000_000_000+int64(i) || &m.row[0] != &ws[i].row[0] {
				t.Fatalf("mutation %d: timestamp %d, row copied: %v", i, m.timestamp, &m.row[0] != &ws[i].row[0])
			}
		}
		again, _, err := encodeBlob(ws, 1_700_000_000_000_000, tables, testLimits)
		if err != nil || !reflect.DeepEqual(b, again) {
			t.Fatalf("encoding again gives other bytes (%v)", err)
		}
	}
}

func TestChunksKeepTheirLimitsAndHoldWholeWrites(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	ws := someWrites(4000, r)
	large := make([]byte, 200<<10) // compressible, and must not be compressed
	ws[1000] = NewTable[event]("events").Insert(event{Topic: "t", Payload: large})
	ws[3999] = ws[1000]
	lim := blobLimits{chunk: 64 << 10, lone: 32 << 10, total: 8 << 20}
	b, ms, err := encodeBlob(ws, 5, openTables{}, lim)
	if err != nil {
		t.Fatal(err)
	}
	first, alone := 0, 0
	for _, c := range b.chunks {
		d := blobDecoder{tables: openTables{}, seen: map[string]*boundTarget{}}
		got, err := d.chunk(t.Context(), c, first)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, ms[first:first+len(got)])
		first += len(got)
		if len(c) > lim.chunk {
			alone++
			if len(got) != 1 || len(c) < len(large) {
				t.Errorf("a chunk of %d bytes holds %d writes", len(c), len(got))
			}
		}
	}
	if first != len(ws) || alone != 2 || len(b.chunks) < 5 {
		t.Errorf("%d of %d writes in %d chunks, %d alone", first, len(ws), len(b.chunks), alone)
	}
}

func TestABlobOverTheLimitIsTooLarge(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	_, _, err := encodeBlob(someWrites(3000, r), 5, openTables{}, blobLimits{chunk: 1 << 16, lone: 1 << 15, total: 50_000})
	if !errors.Is(err, framework.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}

type noTables struct{ openTables }

func (noTables) bound(*target) (*boundTarget, bool) { return nil, false }

func TestWritesToUnknownTablesAndFaultyWritesAreRefused(t *testing.T) {
	for _, ws := range [][]Write{{notes.Insert(note{K: "k"})}, {notes.Insert(note{})}, {{}}} {
		if _, _, err := encodeBlob(ws, 5, noTables{}, testLimits); !errors.Is(err, framework.ErrRefused) {
			t.Errorf("got %v", err)
		}
	}
}

func TestDamageIsFoundBeforeAnythingIsReturned(t *testing.T) {
	tables := openTables{}
	b, _, err := encodeBlob(someWrites(3000, rand.New(rand.NewPCG(7, 8))), 5, tables, blobLimits{chunk: 1 << 15, lone: 1 << 14, total: 8 << 20})
	if err != nil || len(b.chunks) < 3 {
		t.Fatal(err, len(b.chunks))
	}
	for name, damage := range map[string]func(c [][]byte) [][]byte{
		"a flipped bit":  func(c [][]byte) [][]byte { c[1][len(c[1])/2] ^= 1; return c },
		"a lost byte":    func(c [][]byte) [][]byte { c[0] = c[0][:len(c[0])-1]; return c },
		"a lost chunk":   func(c [][]byte) [][]byte { return c[:len(c)-1] },
		"a swap":         func(c [][]byte) [][]byte { c[0], c[1] = c[1], c[0]; return c },
		"one twice":      func(c [][]byte) [][]byte { return append(c, c[0]) },
		"an empty chunk": func(c [][]byte) [][]byte { c[2] = nil; return c },
	} {
		chunks := damage(slices.Collect(func(yield func([]byte) bool) {
			for _, c := range b.chunks {
				yield(bytes.Clone(c))
			}
		}))
		// With a sum that fits, the structure must still be found wrong.
		for _, sum := range [][]byte{b.sum, blobSum(chunks), nil} {
			ms, err := decodeBlob(t.Context(), chunks, sum, tables)
			if bytes.Equal(sum, blobSum(chunks)) && (name == "a lost chunk" || name == "a flipped bit") {
				continue // nothing but the sum can tell
			}
			if !errors.Is(err, framework.ErrCorrupt) || ms != nil {
				t.Errorf("%s: got %d mutations, %v", name, len(ms), err)
			}
		}
	}
}

func TestAnotherFormatIsNotTakenForDamage(t *testing.T) {
	b, _, err := encodeBlob(someWrites(3, rand.New(rand.NewPCG(1, 1))), 5, openTables{}, testLimits)
	if err != nil {
		t.Fatal(err)
	}
	b.chunks[0][len(blobMagic)] = blobVersion + 1
	_, err = decodeBlob(t.Context(), b.chunks, blobSum(b.chunks), openTables{})
	if !errors.Is(err, framework.ErrConfig) || errors.Is(err, framework.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

type closedTables struct{ openTables }

var errTable = errors.New("the table is another")

func (closedTables) resolve(context.Context, *target, tableID) (*boundTarget, error) {
	return nil, errTable
}

func TestARefusedTableRefusesTheWholeBlob(t *testing.T) {
	b, _, err := encodeBlob(someWrites(3, rand.New(rand.NewPCG(1, 1))), 5, openTables{}, testLimits)
	if err != nil {
		t.Fatal(err)
	}
	if ms, err := decodeBlob(t.Context(), b.chunks, b.sum, closedTables{}); !errors.Is(err, errTable) || ms != nil {
		t.Errorf("got %v, %v", ms, err)
	}
}

var update = flag.Bool("update", false, "write the golden files anew")

// TestFormat1 decodes what an earlier version has stored. The file must never be
// written anew: a save in a database may be as old as the format.
func TestFormat1(t *testing.T) {
	at := time.Unix(2_000_000_000, 0)
	v := note{K: "k", C: "c", O: Clear[string](), S: "grüße"}
	ws := []Write{notes.Insert(v).ExpireAt(at), notes.Upsert(v), notes.Delete(v), NewTable[event]("events").Insert(event{Topic: "t", Seq: -1, Payload: []byte{0, 255}})}
	_, want, err := encodeBlob(ws, 1_700_000_000_000_000, openTables{}, testLimits)
	if err != nil {
		t.Fatal(err)
	}
	for name, lone := range map[string]int{"format1-plain.blob": 0, "format1-s2.blob": 1 << 20} {
		file := filepath.Join("testdata", name)
		if *update {
			b, _, err := encodeBlob(ws[:], 1_700_000_000_000_000, openTables{}, blobLimits{chunk: 1 << 20, lone: lone, total: 1 << 20})
			if err == nil {
				err = os.WriteFile(file, bytes.Join(b.chunks, []byte("\n--\n")), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		chunks := bytes.Split(data, []byte("\n--\n"))
		got, err := decodeBlob(t.Context(), chunks, blobSum(chunks), openTables{})
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, want)
	}
}

// FuzzDecodeChunk: no bytes make the decoder panic, and what it accepts can be
// bound and is encoded to the same content again.
func FuzzDecodeChunk(f *testing.F) {
	for seed := range uint64(3) {
		for _, lone := range []int{0, 1 << 20} {
			b, _, err := encodeBlob(someWrites(int(seed)*4+1, rand.New(rand.NewPCG(seed, 1))), 5, openTables{}, blobLimits{chunk: 1 << 20, lone: lone, total: 1 << 20})
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b.chunks[0])
		}
	}
	f.Fuzz(func(t *testing.T, chunk []byte) {
		d := blobDecoder{tables: openTables{}, seen: map[string]*boundTarget{}}
		ms, err := d.chunk(t.Context(), chunk, 0)
		if err != nil {
			if ms != nil {
				t.Error("an error with mutations")
			}
			return
		}
		entries(ms, time.Unix(1, 0))
		for i := range ms {
			_ = ms[i].partition()
		}
		again, err := d.chunk(t.Context(), encodeChunk(ms, ms[0].timestamp, 0, true), 0)
		if err != nil {
			t.Fatalf("what was accepted cannot be decoded again: %v", err)
		}
		same(t, again, ms)
	})
}
