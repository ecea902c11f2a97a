package cassandra

import (
	"errors"
	"testing"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// TestEveryRowOfTheUnknownTable goes through what a ledger row can say of save 6,
// sent by claim 1 after save 5 at offset 40.
func TestEveryRowOfTheUnknownTable(t *testing.T) {
	mine, other := gocql.UUID{1}, gocql.UUID{2}
	c := &claim{token: mine, seq: 5, position: offsetstore.At(40)}
	s := &save{seq: 6, sum: []byte("sum"), from: framework.Progress{Position: offsetstore.At(40)}}
	row := func(claim gocql.UUID, seq, offset int64, saveClaim gocql.UUID, sum string) *ledgerRow {
		return &ledgerRow{claim: claim, seq: seq, position: offsetstore.At(offset), saveClaim: saveClaim, sum: []byte(sum)}
	}
	before := func(claim gocql.UUID) *ledgerRow { return row(claim, 5, 40, mine, "sum before") }
	after := func(claim gocql.UUID) *ledgerRow { return row(claim, 6, 50, mine, "sum") }
	remade := func(r *ledgerRow) *ledgerRow { r.gen = 9; return r }
	epoch := func(r *ledgerRow) *ledgerRow { r.position.LeaderEpoch = 9; return r }

	for _, test := range []struct {
		name    string
		row     *ledgerRow
		refused bool
		state   ledgerState
		reason  error // nil: no verdict yet
		outcome framework.Outcome
	}{
		{"ours, saved", after(mine), false, saved, nil, 0},
		{"ours, saved, although a repetition was refused", after(mine), true, saved, nil, 0},
		{"ours, not yet", before(mine), false, notYet, nil, 0},
		{"ours, the offset was moved", row(mine, 5, 41, mine, "sum before"), false, 0, framework.ErrCorrupt, framework.Unknown},
		{"ours, the offset was moved before we came", row(mine, 5, 41, mine, "sum before"), true, 0, framework.ErrCorrupt, framework.NotSaved},
		{"ours, our number with other content", row(mine, 6, 50, mine, "another"), false, 0, framework.ErrCorrupt, framework.Unknown},
		{"ours, our number from another claim", row(mine, 6, 50, other, "sum"), false, 0, framework.ErrCorrupt, framework.Unknown},
		{"ours, a later number", row(mine, 7, 50, mine, "sum"), false, 0, framework.ErrCorrupt, framework.Unknown},
		{"no row", nil, false, 0, framework.ErrCorrupt, framework.Unknown},
		{"fenced before the save", before(other), false, 0, framework.ErrFenced, framework.NotSaved},
		{"fenced, and a row made anew has the number before ours", remade(before(other)), false, 0, framework.ErrFenced, framework.Unknown},
		{"fenced, and a row made anew refused us", remade(before(other)), true, 0, framework.ErrFenced, framework.NotSaved},
		{"ours, the leader epoch was changed", epoch(before(mine)), true, 0, framework.ErrCorrupt, framework.NotSaved},
		{"fenced after the save", after(other), false, 0, framework.ErrFenced, framework.Saved},
		{"fenced after the save, although a repetition was refused", after(other), true, 0, framework.ErrFenced, framework.Saved},
		{"fenced, and the other has saved", row(other, 7, 60, other, "another"), false, 0, framework.ErrFenced, framework.Unknown},
		{"fenced, and the other has saved before we came", row(other, 6, 60, other, "another"), true, 0, framework.ErrFenced, framework.NotSaved},
		{"fenced, and a row made anew has our number", row(other, 6, 50, other, "sum"), false, 0, framework.ErrFenced, framework.Unknown},
		{"fenced, our number with other content", row(other, 6, 50, mine, "another"), false, 0, framework.ErrFenced, framework.Unknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			state, v := c.judge(test.row, s, test.refused)
			switch {
			case test.reason == nil && (v != nil || state != test.state):
				t.Errorf("state %d, verdict %+v; want state %d and no verdict", state, v, test.state)
			case test.reason != nil && (v == nil || !errors.Is(v.err, test.reason) || v.outcome != test.outcome || !v.spent):
				t.Errorf("verdict %+v; want %v, %s, claim spent", v, test.reason, test.outcome)
			}
		})
	}
}
