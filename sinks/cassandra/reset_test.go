package cassandra

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

func unitReset(from, to int64, drop bool) framework.Reset {
	return framework.Reset{From: offsetstore.At(from), To: offsetstore.At(to), DropState: drop}
}

// countBatch is unitBatch with a state entry.
func countBatch(from, to int64) *framework.Batch[Write] { return countBatchOf(from, to, 10) }

func countBatchOf(from, to int64, size int) *framework.Batch[Write] {
	b := unitBatch(from, to, size)
	b.State = []framework.StateEntry{{StateKey: countKey, Value: []byte("5")}}
	return b
}

func TestResetMovesThePositionAndFencesTheOwner(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, e *engine, c *claim) {
		mustSaveUnit(t, c, countBatch(10, 12))
		before := s.row()
		if err := e.resetLane(t.Context(), unitLane, unitReset(12, 10, false)); err != nil {
			t.Fatal(err)
		}
		if row := s.row(); row.position != offsetstore.At(10) || row.highTS != before.highTS || row.pending() || row.gen != before.gen || row.owner != "" {
			t.Errorf("the row is %+v, was %+v", row, before)
		}
		wantUnitError(t, c.Save(t.Context(), unitBatch(12, 14, 10)), framework.NotSaved, true, framework.ErrFenced)
		next, err := e.claimLane(t.Context(), unitLane, offsetstore.At(0))
		if err != nil || next.Progress().Position.Offset != 10 {
			t.Fatalf("claimed again: %v, %+v", err, next)
		}
		if v, err := next.Load(t.Context(), []framework.StateKey{countKey}); err != nil || string(v[0]) != "5" {
			t.Errorf("the state is %q, %v", v, err)
		}
		mustSaveUnit(t, next, unitBatch(10, 14, 10))
		if n := len(s.db.read()); n != 5 {
			t.Errorf("%d rows, want 4 and one of state", n)
		}
	})
}

func TestResetDropsTheStateWithTheSameStep(t *testing.T) {
	inUnit(t, func(t *testing.T, _ *faultyStore, e *engine, c *claim) {
		mustSaveUnit(t, c, countBatch(10, 12))
		if err := e.resetLane(t.Context(), unitLane, unitReset(12, 10, true)); err != nil {
			t.Fatal(err)
		}
		next, err := e.claimLane(t.Context(), unitLane, offsetstore.At(0))
		if err != nil {
			t.Fatal(err)
		}
		if v, err := next.Load(t.Context(), []framework.StateKey{countKey}); err != nil || v[0] != nil {
			t.Errorf("the state is %q, %v", v, err)
		}
	})
}

func TestResetIsRefusedWhereAnotherPositionIsStored(t *testing.T) {
	epoch, topic := offsetstore.At(10), offsetstore.At(10)
	epoch.LeaderEpoch, topic.TopicID = 3, offsetstore.TopicID{1}
	inUnit(t, func(t *testing.T, s *faultyStore, e *engine, c *claim) {
		before := s.row()
		for _, from := range []offsetstore.Position{offsetstore.At(11), epoch, topic} {
			err := e.resetLane(t.Context(), unitLane, framework.Reset{From: from, To: offsetstore.At(0)})
			if !errors.Is(err, framework.ErrRefused) || !strings.Contains(err.Error(), "is offset 10, not offset 1") {
				t.Errorf("from %v: Reset returned %v", from, err)
			}
		}
		other := laneKey{"p", "in", 4}
		if err := e.resetLane(t.Context(), other, unitReset(0, 1, false)); !errors.Is(err, framework.ErrRefused) {
			t.Errorf("where nothing is stored Reset returned %v", err)
		}
		if row := s.row(); row.claim != before.claim || row.seq != before.seq || s.db.ledger[other] != nil {
			t.Errorf("the row is %+v, was %+v", row, before)
		}
		mustSaveUnit(t, c, unitBatch(10, 11, 10))
	})
}

// dyingSave commits a batch of which nothing gets into the tables.
func dyingSave(t *testing.T, s *faultyStore, c *claim, b *framework.Batch[Write]) {
	t.Helper()
	s.set(hooks{apply: func(func()) error { return errLost }})
	wantUnitError(t, c.Save(t.Context(), b), framework.Saved, true, framework.ErrNotApplied)
	s.set(hooks{})
}

func TestResetFinishesWhatWasLeftAndRemovesItsStage(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, e *engine, c *claim) {
		dyingSave(t, s, c, unitBatch(10, 14, 50<<10))
		if err := e.resetLane(t.Context(), unitLane, unitReset(14, 20, false)); err != nil {
			t.Fatal(err)
		}
		if n := len(s.db.read()); n != 4 || s.staged() != 0 {
			t.Errorf("%d rows, want 4; %d saves are staged", n, s.staged())
		}
		if st := e.counters.stats(); st != (Stats{RollForwards: 1}) {
			t.Errorf("the counters are %+v", st)
		}
	})
}

func TestResetWhoseAnswerIsLostTakesEffectOnce(t *testing.T) {
	for name, lose := range map[string]func(do func()){"request": func(func()) {}, "answer": func(do func()) { do() }} {
		t.Run(name, func(t *testing.T) {
			inUnit(t, func(t *testing.T, s *faultyStore, e *engine, _ *claim) {
				n := 0
				s.set(hooks{execute: func(do func()) error {
					if n++; n == 1 {
						lose(do)
						return errLost
					}
					do()
					return nil
				}})
				before := s.row()
				if err := e.resetLane(t.Context(), unitLane, unitReset(10, 3, false)); err != nil {
					t.Fatal(err)
				}
				if row := s.row(); row.position.Offset != 3 || row.seq != before.seq+1 {
					t.Errorf("the row is %+v", row)
				}
			})
		})
	}
}

func TestResetThatCannotBeDecidedIsUnknown(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, e *engine, _ *claim) {
		s.set(hooks{execute: func(func()) error { return errLost }})
		if err := e.resetLane(t.Context(), unitLane, unitReset(10, 3, false)); !errors.Is(err, framework.ErrUnknown) {
			t.Errorf("Reset returned %v", err)
		}
		s.set(hooks{execute: func(func()) error { return refusal{0x2100} }})
		if err := e.resetLane(t.Context(), unitLane, unitReset(10, 3, false)); !errors.Is(err, framework.ErrConfig) {
			t.Errorf("without permission Reset returned %v", err)
		}
	})
}

func TestResetJudgesTheRowAfterAnAnswerThatDoesNotTell(t *testing.T) {
	old := &ledgerRow{format: oldestFormat, epoch: 3, claim: gocql.UUID{1}, seq: 7, applied: 7}
	ours := *old
	ours.epoch, ours.claim, ours.saveClaim, ours.seq, ours.applied = 4, gocql.UUID{9}, gocql.UUID{9}, 8, 8
	with := func(row ledgerRow, change func(r *ledgerRow)) *ledgerRow { change(&row); return &row }
	for name, test := range map[string]struct {
		row     *ledgerRow
		refused bool
		done    bool
		err     error
	}{
		"in place":                   {&ours, false, true, nil},
		"claimed since":              {with(ours, func(r *ledgerRow) { r.claim, r.epoch = gocql.UUID{2}, 5 }), false, true, nil},
		"not yet":                    {old, false, false, nil},
		"the owner has saved":        {with(*old, func(r *ledgerRow) { r.seq = 8 }), false, false, errMoved},
		"claimed before":             {with(*old, func(r *ledgerRow) { r.claim = gocql.UUID{2} }), false, false, errMoved},
		"claimed and saved":          {with(*old, func(r *ledgerRow) { r.claim, r.seq = gocql.UUID{2}, 9 }), false, false, framework.ErrUnknown},
		"refused, and then that":     {with(*old, func(r *ledgerRow) { r.claim, r.seq = gocql.UUID{2}, 9 }), true, false, errMoved},
		"the row has gone":           {nil, false, false, framework.ErrCorrupt},
		"a row nobody can have made": {with(*old, func(r *ledgerRow) { r.applied = 9 }), false, false, framework.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			done, err := judgeReset(unitLane, test.row, old, gocql.UUID{9}, test.refused)
			if done != test.done || !errors.Is(err, test.err) {
				t.Errorf("it is done: %v, error %v", done, err)
			}
		})
	}
}

func TestFlushFinishesWhatADeadOwnerLeft(t *testing.T) {
	for name, size := range map[string]int{"in the row": 10, "staged": 50 << 10} {
		t.Run(name, func(t *testing.T) {
			inUnit(t, func(t *testing.T, s *faultyStore, e *engine, c *claim) {
				dyingSave(t, s, c, unitBatch(10, 14, size))
				before := s.row()
				for range 2 {
					if err := e.flushLane(t.Context(), unitLane); err != nil {
						t.Fatal(err)
					}
				}
				if row := s.row(); row.pending() || row.claim != before.claim || row.position != before.position {
					t.Errorf("the row is %+v, was %+v", row, before)
				}
				if n := len(s.db.read()); n != 4 || e.counters.stats().RollForwards != 1 {
					t.Errorf("%d rows, want 4; %+v", n, e.counters.stats())
				}
			})
		})
	}
}

func TestFlushDoesNotDisturbAnOwnerThatLives(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, e *engine, c *claim) {
		if err := e.flushLane(t.Context(), laneKey{"p", "in", 4}); !errors.Is(err, framework.ErrRefused) {
			t.Errorf("where nothing is stored Flush returned %v", err)
		}
		for at := int64(10); at < 20; at++ {
			mustSaveUnit(t, c, unitBatch(at, at+1, 40<<10))
			if err := e.flushLane(t.Context(), unitLane); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Second)
		if n := len(s.db.read()); n != 10 || s.staged() != 0 || c.usable() != nil {
			t.Errorf("%d rows, want 10; %d saves are staged; the claim: %v", n, s.staged(), c.usable())
		}
	})
}

// The owner replaces the save, and removes its content, while Flush reads it.
func TestFlushOfASaveThatIsReplacedMeanwhileLooksAgain(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, e *engine, c *claim) {
		mustSaveUnit(t, c, unitBatch(10, 12, 40<<10))
		n := 0
		s.set(hooks{read: func(do func()) error {
			do()
			if n++; n == 1 {
				row := s.db.ledger[unitLane]
				s.db.deleteChunks(row.stageKey(unitLane))
				row.applied = row.seq
			}
			return nil
		}})
		if err := e.flushLane(t.Context(), unitLane); err != nil {
			t.Error(err)
		}
		if !slices.Contains(s.seen, "chunks") || n != 3 {
			t.Errorf("the ledger was read %d times", n)
		}
	})
}

func TestFlushOfDamagedContentSaysSo(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, e *engine, c *claim) {
		mustSaveUnit(t, c, unitBatch(10, 12, 40<<10))
		s.db.deleteChunks(s.row().stageKey(unitLane))
		if err := e.flushLane(t.Context(), unitLane); !errors.Is(err, framework.ErrCorrupt) {
			t.Errorf("Flush returned %v", err)
		}
	})
}

func TestStatsCountFailuresOnce(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, e *engine, c *claim) {
		n := 0
		s.set(hooks{execute: func(do func()) error {
			if n++; n <= 2 {
				return errLost
			}
			do()
			return nil
		}})
		mustSaveUnit(t, c, unitBatch(10, 12, 10))
		s.set(hooks{})
		if st := e.counters.stats(); st != (Stats{UnknownOutcomes: 1}) {
			t.Errorf("after an unknown outcome: %+v", st)
		}
		// The next owner cannot know that the save is applied, and does it again.
		if _, err := e.claimLane(t.Context(), unitLane, offsetstore.At(0)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := c.Save(t.Context(), unitBatch(12, 13, 10)); err == nil {
				t.Error("a fenced owner has saved")
			}
		}
		if st := e.counters.stats(); st != (Stats{UnknownOutcomes: 1, RollForwards: 1, Fenced: 1}) {
			t.Errorf("after a claim and a fenced save: %+v", st)
		}
	})
}
