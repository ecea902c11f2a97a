package memory_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/memory"
)

var orders0 = offsetstore.TopicPartition{Topic: "orders"}

func claim[W any](t *testing.T, s *memory.Sink[W]) framework.Claim[W] {
	t.Helper()
	c, err := s.Claim(t.Context(), "p", orders0, offsetstore.At(0))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// batch moves the position by the number of its writes.
func batch[W any](from int64, writes ...W) *framework.Batch[W] {
	return &framework.Batch[W]{
		From:   framework.Progress{Position: offsetstore.At(from)},
		To:     framework.Progress{Position: offsetstore.At(from + int64(len(writes)))},
		Writes: writes,
	}
}

func TestRowsReplaceAndDeleteEachOther(t *testing.T) {
	store := memory.NewStore[memory.Row]()
	c := claim(t, store.Open(memory.Options[memory.Row]{}))
	err := c.Save(t.Context(), batch(0,
		memory.Row{Table: "a", Key: "k", Value: 1},
		memory.Row{Table: "a", Key: "k", Value: 2},
		memory.Row{Table: "a", Key: "gone", Value: 3},
		memory.Row{Table: "a", Key: "gone", Delete: true},
		memory.Row{Table: "b", Key: "k", Value: 4},
	))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := memory.Rows(store, "a"), map[string]any{"k": 2}; !maps.Equal(got, want) {
		t.Errorf("table a holds %v, want %v", got, want)
	}
	if got, want := memory.Rows(store, "b"), map[string]any{"k": 4}; !maps.Equal(got, want) {
		t.Errorf("table b holds %v, want %v", got, want)
	}
	if got := len(store.Writes("p", orders0)); got != 5 {
		t.Errorf("the history holds %d writes, want 5", got)
	}
}

func TestKeepCountsKeepsNoHistory(t *testing.T) {
	store := memory.NewStoreKeeping[memory.Row](memory.KeepCounts)
	c := claim(t, store.Open(memory.Options[memory.Row]{}))
	err := c.Save(t.Context(), batch(0,
		memory.Row{Table: "a", Key: "k", Value: 1},
		memory.Row{Table: "a", Key: "k", Value: 2},
	))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(store.AllWrites("p")); n != 0 {
		t.Errorf("%d writes were kept, want none", n)
	}
	if n := store.Count("p"); n != 2 {
		t.Errorf("%d writes were counted, want 2", n)
	}
	if v := memory.Rows(store, "a")["k"]; v != 2 {
		t.Errorf("the row holds %v, want the latest value 2", v)
	}
}

func TestAllWritesAreOrderedByPartition(t *testing.T) {
	store := memory.NewStore[string]()
	sink := store.Open(memory.Options[string]{})
	for _, partition := range []int32{10, 2, 1} {
		tp := offsetstore.TopicPartition{Topic: "orders", Partition: partition}
		c, err := sink.Claim(t.Context(), "p", tp, offsetstore.At(0))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Save(t.Context(), batch(0, tp.String())); err != nil {
			t.Fatal(err)
		}
	}
	got := store.AllWrites("p")
	want := []string{"orders/1", "orders/2", "orders/10"}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("AllWrites returned %q, want %q", got, want)
		}
	}
}

func TestHookBeforeSaveSavesNothing(t *testing.T) {
	fault := &framework.SaveError{Outcome: framework.NotSaved, Err: framework.ErrRefused}
	store := memory.NewStore[string]()
	sink := store.Open(memory.Options[string]{Hooks: memory.Hooks[string]{
		BeforeSave: func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[string]) error {
			return fault
		},
	}})
	if err := claim(t, sink).Save(t.Context(), batch(0, "a")); err != error(fault) {
		t.Errorf("Save returned %v, want the hook's own error", err)
	}
	if lane, _ := store.Lane("p", orders0); lane.Saves != 0 || lane.Position.Offset != 0 || len(lane.Writes) != 0 {
		t.Errorf("the lane changed: %+v", lane)
	}
}

func TestHookAfterSaveLosesOnlyTheAnswer(t *testing.T) {
	store := memory.NewStore[string]()
	sink := store.Open(memory.Options[string]{Hooks: memory.Hooks[string]{
		AfterSave: func(context.Context, string, offsetstore.TopicPartition, *framework.Batch[string]) error {
			return &framework.SaveError{Outcome: framework.Unknown, ClaimSpent: true, Err: framework.ErrUnknown}
		},
	}})
	if err := claim(t, sink).Save(t.Context(), batch(0, "a")); !errors.Is(err, framework.ErrUnknown) {
		t.Errorf("Save returned %v, want the hook's ErrUnknown", err)
	}
	if lane, _ := store.Lane("p", orders0); lane.Saves != 1 || lane.Position.Offset != 1 || len(lane.Writes) != 1 {
		t.Errorf("the save did not take effect: %+v", lane)
	}
}

func TestCloseAndCancelEndACallThatIsHeldUp(t *testing.T) {
	for name, end := range map[string]struct {
		by   func(sink *memory.Sink[string], cancel context.CancelFunc)
		want error
	}{
		"close":  {func(s *memory.Sink[string], _ context.CancelFunc) { s.Close(context.Background()) }, framework.ErrClosed},
		"cancel": {func(_ *memory.Sink[string], cancel context.CancelFunc) { cancel() }, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			held := make(chan struct{})
			store := memory.NewStore[string]()
			sink := store.Open(memory.Options[string]{Hooks: memory.Hooks[string]{
				BeforeSave: func(ctx context.Context, _ string, _ offsetstore.TopicPartition, _ *framework.Batch[string]) error {
					close(held)
					<-ctx.Done()
					return ctx.Err()
				},
			}})
			c := claim(t, sink)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			saved := make(chan error)
			go func() { saved <- c.Save(ctx, batch(0, "a")) }()
			<-held
			end.by(sink, cancel)
			var se *framework.SaveError
			if err := <-saved; !errors.As(err, &se) || se.Outcome != framework.NotSaved || !errors.Is(err, end.want) {
				t.Errorf("Save returned %v, want a *SaveError with outcome not saved and %v", err, end.want)
			}
			if n := store.Count("p"); n != 0 {
				t.Errorf("%d writes were saved, want none", n)
			}
		})
	}
}

func TestCheckUsesTheWritesOwnMethodOrItsLength(t *testing.T) {
	rows := memory.NewStore[memory.Row]().Open(memory.Options[memory.Row]{})
	if _, err := rows.Check(memory.Row{Table: "a"}); !errors.Is(err, framework.ErrRefused) {
		t.Errorf("a row without a key: Check returned %v, want ErrRefused", err)
	}
	if n, err := rows.Check(memory.Row{Table: "a", Key: "k", Value: "four"}); n != 6 || err != nil {
		t.Errorf("Check returned %d, %v; want 6 bytes", n, err)
	}
	text := memory.NewStore[string]().Open(memory.Options[string]{})
	if n, err := text.Check("four"); n != 4 || err != nil {
		t.Errorf("Check returned %d, %v; want 4 bytes", n, err)
	}
}

func TestSnapshotsAndArgumentsShareNoMemoryWithTheStore(t *testing.T) {
	store := memory.NewStore[string]()
	c := claim(t, store.Open(memory.Options[string]{}))
	b := batch(0, "a")
	b.To.Lane = []byte("lane")
	key := framework.StateKey{Operator: "sum", Key: []byte("k")}
	b.State = []framework.StateEntry{{StateKey: key, Value: []byte("1")}}
	b.DeadLetters = []framework.DeadLetter{{Value: []byte("bad"), Headers: []framework.Header{{Key: "h", Value: []byte("v")}}}}
	if err := c.Save(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	spoil := func(l memory.Lane[string]) {
		for _, p := range [][]byte{l.Lane, l.State[0].Value, l.DeadLetters[0].Value, l.DeadLetters[0].Headers[0].Value} {
			p[0] = 'X'
		}
	}
	spoil(memory.Lane[string]{Progress: b.To, State: b.State, DeadLetters: b.DeadLetters})
	first, _ := store.Lane("p", orders0)
	spoil(first)
	got, _ := store.Lane("p", orders0)
	if string(got.Lane) != "lane" || string(got.State[0].Value) != "1" ||
		string(got.DeadLetters[0].Value) != "bad" || string(got.DeadLetters[0].Headers[0].Value) != "v" {
		t.Errorf("changing what was given or returned changed the store: %+v", got)
	}
}

func TestARecordThatFailsAgainReplacesItsDeadLetter(t *testing.T) {
	store := memory.NewStore[memory.Row]()
	s := store.Open(memory.Options[memory.Row]{})
	tp := offsetstore.TopicPartition{Topic: "orders"}
	save := func(from, to int64, letters ...framework.DeadLetter) {
		t.Helper()
		c, err := s.Claim(t.Context(), "p", tp, offsetstore.At(0))
		if err != nil {
			t.Fatal(err)
		}
		err = c.Save(t.Context(), &framework.Batch[memory.Row]{
			From: framework.Progress{Position: offsetstore.At(from)}, To: framework.Progress{Position: offsetstore.At(to)}, DeadLetters: letters,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	save(0, 10, framework.DeadLetter{Offset: 3, Error: "first"}, framework.DeadLetter{Offset: 7, Error: "first"})
	err := s.Reset(t.Context(), framework.Reset{Pipeline: "p", TopicPartition: tp, From: offsetstore.At(10), To: offsetstore.At(0)})
	if err != nil {
		t.Fatal(err)
	}
	save(0, 6, framework.DeadLetter{Offset: 3, Error: "again"}, framework.DeadLetter{Offset: 5, Error: "again"})
	var got []string
	for _, d := range store.DeadLetters("p", tp) {
		got = append(got, fmt.Sprint(d.Offset, d.Error))
	}
	if want := []string{"3again", "5again", "7first"}; !slices.Equal(got, want) {
		t.Errorf("the dead letters are %q, want %q", got, want)
	}
}
