package cassandra

import (
	"errors"
	"testing"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

func TestDamagedLedgerRowsAreNamedAsSuch(t *testing.T) {
	good := ledgerRow{format: oldestFormat, epoch: 1, claim: gocql.UUID{1}, seq: 2, applied: 1, position: offsetstore.At(5)}
	if err := good.check(unitLane); err != nil {
		t.Fatalf("a good row: %v", err)
	}
	for name, damage := range map[string]func(*ledgerRow){
		"no position":         func(r *ledgerRow) { r.position.Offset = -1 },
		"no claim":            func(r *ledgerRow) { r.claim = gocql.UUID{} },
		"no epoch":            func(r *ledgerRow) { r.epoch = 0 },
		"applied beyond seq":  func(r *ledgerRow) { r.applied = 3 },
		"no format":           func(r *ledgerRow) { r.format = 0 },
		"a negative save":     func(r *ledgerRow) { r.seq, r.applied = -1, -1 },
		"a negative applied":  func(r *ledgerRow) { r.applied = -1 },
		"a position below -1": func(r *ledgerRow) { r.position.Offset = -7 },
	} {
		r := good
		damage(&r)
		if err := r.check(unitLane); !errors.Is(err, framework.ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
	}
}
