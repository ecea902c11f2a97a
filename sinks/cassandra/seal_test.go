package cassandra

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// handEdits change one column each, as somebody with cqlsh would.
var handEdits = map[string]func(r *ledgerRow){
	"next_offset":  func(r *ledgerRow) { r.position.Offset = 7 },
	"leader_epoch": func(r *ledgerRow) { r.position.LeaderEpoch = 7 },
	"topic_id":     func(r *ledgerRow) { r.position.TopicID = offsetstore.TopicID{7} },
	"seq":          func(r *ledgerRow) { r.seq = 7 },
	"high_ts":      func(r *ledgerRow) { r.highTS++ },
	"gen":          func(r *ledgerRow) { r.gen++ },
	"save_claim":   func(r *ledgerRow) { r.saveClaim = gocql.UUID{7} },
	"chunks":       func(r *ledgerRow) { r.chunks = 7 },
	"bytes":        func(r *ledgerRow) { r.bytes = 7 },
	"lane":         func(r *ledgerRow) { r.lane = []byte("7") },
	"sum":          func(r *ledgerRow) { r.sum = []byte("7") },
}

func TestLedgerEditedAtRestStopsWhoeverComesNext(t *testing.T) {
	for column, edit := range handEdits {
		for name, used := range map[string]bool{"before the first save": false, "after a save": true} {
			t.Run(column+" "+name, func(t *testing.T) {
				inUnit(t, func(t *testing.T, s *faultyStore, e *engine, c *claim) {
					if used {
						mustSaveUnit(t, c, unitBatch(10, 12, 10))
					}
					if err := c.Release(t.Context()); err != nil {
						t.Fatal(err)
					}
					edit(s.db.ledger[unitLane])
					before := len(s.sent("execute"))
					_, claimed := e.claimLane(t.Context(), unitLane, offsetstore.At(0))
					flushed := e.flushLane(t.Context(), unitLane)
					reset := e.resetLane(t.Context(), unitLane, framework.Reset{From: s.row().position})
					for what, err := range map[string]error{"Claim": claimed, "Flush": flushed, "Reset": reset} {
						if !errors.Is(err, framework.ErrCorrupt) {
							t.Errorf("%s returned %v", what, err)
						}
						for _, word := range []string{column, `pipeline "p"`, "in/3"} {
							if column != "seq" && err != nil && !strings.Contains(err.Error(), word) {
								t.Errorf("the error of %s does not name %s: %v", what, word, err)
							}
						}
					}
					if len(s.sent("execute")) != before {
						t.Error("the row was written to")
					}
				})
			})
		}
	}
}

func TestPositionEditedUnderALiveClaimStopsTheSave(t *testing.T) {
	for _, column := range []string{"next_offset", "leader_epoch", "topic_id", "seq"} {
		t.Run(column, func(t *testing.T) {
			inUnit(t, func(t *testing.T, s *faultyStore, _ *engine, c *claim) {
				mustSaveUnit(t, c, unitBatch(10, 12, 10))
				rows := len(s.db.read())
				handEdits[column](s.db.ledger[unitLane])
				before := len(s.sent("execute"))
				wantUnitError(t, c.Save(t.Context(), unitBatch(12, 14, 10)), framework.NotSaved, true, framework.ErrCorrupt)
				if n := len(s.sent("execute")) - before; n != 1 || len(s.db.read()) != rows {
					t.Errorf("%d statements and %d rows: want one, refused, and %d", n, len(s.db.read()), rows)
				}
			})
		})
	}
}

func TestLedgerRowMadeAnewKnowsNothingOfTheOldOne(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, e *engine, c *claim) {
		mustSaveUnit(t, c, countBatch(10, 12))
		delete(s.db.ledger, unitLane)
		next, err := e.claimLane(t.Context(), unitLane, offsetstore.At(10))
		if err != nil {
			t.Fatal(err)
		}
		if v, err := next.Load(t.Context(), []framework.StateKey{countKey}); err != nil || v[0] != nil {
			t.Errorf("it has the state of the row that was removed: %q, %v", v, err)
		}
		mustSaveUnit(t, next, countBatch(10, 12))
		wantUnitError(t, c.Save(t.Context(), unitBatch(12, 14, 10)), framework.NotSaved, true, framework.ErrFenced)
	})
}

// A row as format 1 had it: without a seal, and with state of generation 0.
func TestLedgerOfFormat1IsReadAndSealedByTheNextSave(t *testing.T) {
	for name, size := range map[string]int{"in the row": 10, "staged": 50 << 10} {
		t.Run(name, func(t *testing.T) {
			inUnit(t, func(t *testing.T, s *faultyStore, e *engine, c *claim) {
				s.db.ledger[unitLane].gen, c.gen = 0, 0
				dyingSave(t, s, c, countBatchOf(10, 12, size))
				old := s.db.ledger[unitLane]
				old.format, old.sum = oldestFormat, old.contentSum()
				next, err := e.claimLane(t.Context(), unitLane, offsetstore.At(0))
				if err != nil {
					t.Fatal(err)
				}
				if n := len(s.db.read()); n != 3 {
					t.Errorf("%d rows, want 2 and one of state", n)
				}
				if v, err := next.Load(t.Context(), []framework.StateKey{countKey}); err != nil || string(v[0]) != "5" {
					t.Errorf("the state is %q, %v", v, err)
				}
				mustSaveUnit(t, next, unitBatch(12, 13, 10))
				if row := s.row(); row.format != ledgerFormat || row.checkSeal(unitLane) != nil {
					t.Errorf("the row is not sealed: %+v", row)
				}
			})
		})
	}
}

func TestSealNeverChanges(t *testing.T) {
	// It is stored: a change makes every ledger look damaged.
	row := ledgerRow{seq: 1, saveClaim: gocql.UUID{2}, position: offsetstore.At(3), highTS: 4, gen: 5, chunks: 6, bytes: 7, lane: []byte("l")}
	const want = "051b5350e602892742535bec180962d1d5771ef2dccb9fc155283a739bb4497a"
	if got := hex.EncodeToString(row.seal(unitLane, noContent)); got != want {
		t.Errorf("the seal is %s", got)
	}
}
