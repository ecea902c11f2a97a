//go:build integration

package cassandra

import (
	"context"
	"errors"
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// dies leaves a save of n rows that is committed, and of which nothing is in the
// table.
func (b *bed) dies(n int64, value string) {
	b.t.Helper()
	s, hook := b.open()
	c := b.claim(s)
	hook.applyHook = noAnswer
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	hook.beforeExecute = func(conditional) { cancel() }
	wantSaveError(b.t, c.Save(ctx, logBatch(0, n, value)), framework.Saved, true, framework.ErrNotApplied)
	b.wantRows(0, "")
}

// stored returns the position of in/0.
func (b *bed) stored(s *Sink) framework.StoredPosition {
	b.t.Helper()
	all, err := s.Positions(b.t.Context(), "p")
	if err != nil || len(all) != 1 {
		b.t.Fatalf("the positions are %v, %v", all, err)
	}
	return all[0]
}

func TestFlushCompletesTheTablesWithoutAClaim(t *testing.T) {
	b := newBed(t)
	b.dies(300, "v")
	s, _ := b.open()
	if before := b.stored(s); !before.Pending {
		t.Errorf("nothing is pending: %+v", before)
	}
	if err := s.Flush(t.Context(), "p", in0); err != nil {
		t.Fatal(err)
	}
	b.wantRows(300, "v")
	if after := b.stored(s); after.Pending || after.Position.Offset != 300 || s.Stats().RollForwards != 1 {
		t.Errorf("the position is %+v, %+v", after, s.Stats())
	}
	if err := s.Flush(t.Context(), "another", in0); !errors.Is(err, framework.ErrRefused) {
		t.Errorf("Flush of what does not exist returned %v", err)
	}
}

func TestResetMovesThePositionOnARealServer(t *testing.T) {
	b := newBed(t)
	b.dies(300, "v")
	s, _ := b.open()
	reset := func(from, to offsetstore.Position, drop bool) error {
		return s.Reset(t.Context(), framework.Reset{Pipeline: "p", TopicPartition: in0, From: from, To: to, DropState: drop})
	}
	if err := reset(offsetstore.At(299), offsetstore.At(0), false); !errors.Is(err, framework.ErrRefused) {
		t.Errorf("Reset from a position that is not stored returned %v", err)
	}
	to := offsetstore.Position{Offset: 290, LeaderEpoch: 4, TopicID: offsetstore.TopicID{7}}
	if err := reset(offsetstore.At(300), to, false); err != nil {
		t.Fatal(err)
	}
	b.wantRows(300, "v")
	if p := b.stored(s); p.Position != to || p.Pending || p.Owner != "" {
		t.Errorf("the position is %+v", p)
	}
	c, err := s.Claim(t.Context(), "p", in0, offsetstore.At(0))
	if err != nil {
		t.Fatal(err)
	}
	batch := logBatch(290, 291, "v")
	batch.From = c.Progress()
	batch.State = []framework.StateEntry{{StateKey: framework.StateKey{Operator: "o"}, Value: []byte("v")}}
	mustSave(t, c, batch)
	// A live owner is fenced, and the state is gone with the same step.
	if err := reset(batch.To.Position, offsetstore.At(0), true); err != nil {
		t.Fatal(err)
	}
	wantSaveError(t, c.Save(t.Context(), logBatch(291, 292, "v")), framework.NotSaved, true, framework.ErrFenced)
	if st := s.Stats(); st.Fenced != 1 {
		t.Errorf("the counters are %+v", st)
	}
	next := b.claim(s)
	values, err := next.Load(t.Context(), []framework.StateKey{{Operator: "o"}})
	if err != nil || values[0] != nil || next.Progress().Position != offsetstore.At(0) {
		t.Errorf("after the reset the state is %q, the position %+v, error %v", values[0], next.Progress(), err)
	}
	mustSave(t, next, logBatch(0, 300, "again"))
	b.wantRows(300, "again")
}
