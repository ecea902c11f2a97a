//go:build integration

package cassandra

import (
	"errors"
	"strings"
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// edit changes the ledger row of in/0 by hand.
func (b *bed) edit(cql string) {
	b.t.Helper()
	where := " WHERE pipeline = 'p' AND topic = 'in' AND partition = 0"
	if err := b.session.Query(strings.Replace(cql, "…", where, 1)).Exec(); err != nil {
		b.t.Fatal(err)
	}
}

func TestLedgerEditedByHandIsDamageOnARealServer(t *testing.T) {
	for _, set := range []string{"next_offset = 7", "leader_epoch = 3", "topic_id = 11111111-2222-3333-4444-555555555555", "leader_epoch = null"} {
		t.Run(set, func(t *testing.T) {
			b := newBed(t)
			s, _ := b.open()
			c := b.claim(s)
			mustSave(t, c, logBatch(0, 5, "v"))
			b.edit("UPDATE " + ledgerTable + " SET " + set + "… IF EXISTS")
			wantSaveError(t, c.Save(t.Context(), logBatch(5, 6, "v")), framework.NotSaved, true, framework.ErrCorrupt, `pipeline "p"`, "in/0")
			column, _, _ := strings.Cut(set, " ")
			if _, err := s.Claim(t.Context(), "p", in0, offsetstore.At(0)); !errors.Is(err, framework.ErrCorrupt) || !strings.Contains(err.Error(), column) {
				t.Errorf("Claim returned %v", err)
			}
			b.wantRows(5, "v")
		})
	}
}

func TestLedgerRowRemovedAndMadeAnewKnowsNoOldOwnerAndNoOldState(t *testing.T) {
	b := newBed(t)
	s, _ := b.open()
	c := b.claim(s)
	batch := logBatch(0, 5, "v")
	batch.State = []framework.StateEntry{{StateKey: framework.StateKey{Operator: "o"}, Value: []byte("5")}}
	mustSave(t, c, batch)
	b.edit("DELETE FROM " + ledgerTable + "… IF EXISTS")
	next := b.claim(s)
	values, err := next.Load(t.Context(), []framework.StateKey{{Operator: "o"}})
	if err != nil || values[0] != nil {
		t.Errorf("the state is %q, %v", values, err)
	}
	wantSaveError(t, c.Save(t.Context(), logBatch(5, 6, "v")), framework.NotSaved, true, framework.ErrFenced)
	mustSave(t, next, logBatch(0, 5, "again"))
	b.wantRows(5, "again")
}
