package cassandra

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gocql/gocql"
)

// simBroken is a rule of the protocol that the processes of a history break.
type simBroken struct {
	keepState bool                // state is kept in memory whatever became of the save
	noOverlay bool                // state is read from the database while a save of it is under way
	hideWaits bool                // the clock stands still while an answer is waited for
	mirror    bool                // reading goes on where the group has committed
	ownLane   bool                // the lane's data is what the process remembers
	ownStart  bool                // a lane begins where this process would
	store     func(s store) store // what stands between the protocol and the database
}

// wrap returns the database as p sees it.
func (b simBroken) wrap(p *simProc) store {
	var s store = simStore{p}
	if b.hideWaits {
		s = &waitHider{store: s, p: p}
	}
	if b.store != nil {
		s = b.store(s)
	}
	return s
}

// clock returns the clock of p.
func (b simBroken) clock(p *simProc, c clock) clock {
	if !b.hideWaits {
		return c
	}
	return clock{now: func() time.Time { return c.now().Round(0).Add(-p.waited()) }, wait: c.wait}
}

// waited is for how long p has waited for answers.
func (p *simProc) waited() time.Duration {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.hidden
}

// waitHider measures how long answers take.
type waitHider struct {
	store
	p *simProc
}

func (h *waitHider) hide(since time.Time) {
	h.p.w.mu.Lock()
	defer h.p.w.mu.Unlock()
	h.p.hidden += time.Since(since)
}

func (h *waitHider) readLedger(ctx context.Context, lane laneKey) (*ledgerRow, error) {
	defer h.hide(time.Now())
	return h.store.readLedger(ctx, lane)
}

func (h *waitHider) execute(ctx context.Context, st conditional) (bool, error) {
	defer h.hide(time.Now())
	return h.store.execute(ctx, st)
}

// brokenStore changes what the protocol asks.
type brokenStore struct {
	store
	conditional func(st conditional) conditional
	answer      func(st conditional, applied bool, err error) (bool, error)
	row         func(row *ledgerRow) *ledgerRow
	mutation    func(m mutation) mutation
	noMark      bool
}

func (b *brokenStore) execute(ctx context.Context, st conditional) (bool, error) {
	if _, seq := st.value(colSeq); b.noMark && !seq && len(st.set) == 1 {
		n, _ := st.value(colApplied)
		lane := simStoreOf(b.store).p.w.lane(st.lane)
		lane.marked = n.(int64)
		return true, nil
	}
	if b.conditional != nil {
		st = b.conditional(st)
	}
	applied, err := b.store.execute(ctx, st)
	if b.answer != nil {
		return b.answer(st, applied, err)
	}
	return applied, err
}

func (b *brokenStore) readLedger(ctx context.Context, lane laneKey) (*ledgerRow, error) {
	row, err := b.store.readLedger(ctx, lane)
	if row != nil && b.row != nil {
		row = b.row(row)
	}
	return row, err
}

func (b *brokenStore) apply(ctx context.Context, group []mutation) error {
	if b.mutation == nil {
		return b.store.apply(ctx, group)
	}
	changed := slices.Clone(group)
	for i := range changed {
		changed[i] = b.mutation(changed[i])
	}
	return b.store.apply(ctx, changed)
}

// without returns st without a condition.
func (st conditional) without(column string) conditional {
	st.when = slices.DeleteFunc(slices.Clone(st.when), func(s setting) bool { return s.column == column })
	return st
}

// with returns st with another value in a column.
func (st conditional) with(column string, value any) conditional {
	st.set = slices.Clone(st.set)
	for i := range st.set {
		if st.set[i].column == column {
			st.set[i].value = value
		}
	}
	return st
}

// commits changes the saves among conditional statements.
func commits(change func(conditional) conditional) func(s store) store {
	return func(s store) store {
		return &brokenStore{store: s, conditional: func(st conditional) conditional {
			if st.isCommit() {
				return change(st)
			}
			return st
		}}
	}
}

// otherBytes sends other bytes whenever a save is sent again.
func otherBytes(s store) store {
	var mu sync.Mutex
	sent := map[string]int{}
	return commits(func(st conditional) conditional {
		mu.Lock()
		defer mu.Unlock()
		claim, _ := st.value(colSaveClaim)
		seq, _ := st.value(colSeq)
		key := fmt.Sprint(claim, seq)
		if sent[key]++; sent[key] > 1 {
			st = st.with(colSavedAt, time.Now())
		}
		return st
	})(s)
}

// brokenRules are the rules that the protocol consists of, each broken, and how what
// must be said of it begins: the invariants, one of which notices.
var brokenRules = map[string]struct {
	broken simBroken
	rules  []string
}{
	"no claim in the condition": {
		simBroken{store: commits(func(st conditional) conditional { return st.without(colClaim) })}, []string{"I2:", "I1:"}},
	"no number in the condition": {
		simBroken{store: commits(func(st conditional) conditional { return st.without(colSeq) })}, []string{"I1:", "I8:", "I10:"}},
	"not applied taken for success": {
		simBroken{store: func(s store) store {
			return &brokenStore{store: s, answer: func(_ conditional, applied bool, err error) (bool, error) { return applied || err == nil, err }}
		}}, []string{"I8:"}},
	"no answer taken for failure": {
		simBroken{store: func(s store) store {
			return &brokenStore{store: s, answer: func(st conditional, applied bool, err error) (bool, error) {
				if err != nil && st.isCommit() {
					return false, refusal{gocql.ErrCodeInvalid}
				}
				return applied, err
			}}
		}}, []string{"I8:"}},
	"write time of the wall clock": {
		simBroken{store: func(s store) store {
			// That of the process that applies, not the one that was fixed.
			return &brokenStore{store: s, mutation: func(m mutation) mutation {
				m.timestamp = simStoreOf(s).p.engine.clock.micros()
				return m
			}}
		}}, []string{"I3:", "I4:"}},
	"lease counted from the answer": {simBroken{hideWaits: true}, []string{"I9:"}},
	"no applied mark": {
		simBroken{store: func(s store) store {
			return &brokenStore{store: s, noMark: true, conditional: func(st conditional) conditional {
				if st.isCommit() || st.isReset() || st.create {
					return st
				}
				st.set = slices.DeleteFunc(slices.Clone(st.set), func(s setting) bool { return s.column == colApplied })
				return st
			}}
		}}, []string{"I3: the tables"}},
	"different bytes under one number":   {simBroken{store: otherBytes}, []string{"I6:"}},
	"state kept after a failed save":     {simBroken{keepState: true}, []string{"I11:"}},
	"state read while it is being saved": {simBroken{noOverlay: true}, []string{"I11:"}},
	"the group's offset is the position": {
		simBroken{mirror: true, store: commits(func(st conditional) conditional {
			return st.without(colNextOffset).without(colLeaderEpoch).without(colTopicID)
		})}, []string{"I1:"}},
	"lateness of what the process remembers": {simBroken{ownLane: true}, []string{"I12:"}},
	"start of one's own":                     {simBroken{ownStart: true}, []string{"I13:"}},
	"position before the outputs": {
		simBroken{store: commits(func(st conditional) conditional {
			seq, _ := st.value(colSeq)
			return st.with(colApplied, seq)
		})}, []string{"I3:", "I4:"}},
	"earlier save not finished by a claim": {
		simBroken{store: func(s store) store {
			return &brokenStore{store: s, row: func(row *ledgerRow) *ledgerRow { row.applied = row.seq; return row }}
		}}, []string{"I3:", "I4:"}},
}

// simStoreOf finds the database that s leads to.
func simStoreOf(s store) simStore { return s.(simStore) }

// brokenHistories is how many histories may pass before a broken rule is noticed.
const brokenHistories = 4000

// Each rule of the protocol is there for a reason: without it one of the invariants
// is violated, and the simulation notices.
func TestSimulationNoticesEachRuleThatIsBroken(t *testing.T) {
	for name, test := range brokenRules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(brokenHistories) {
				for _, f := range simulate(t, seed, test.broken, false).faulty {
					if slices.ContainsFunc(test.rules, func(rule string) bool { return strings.HasPrefix(f, rule) }) {
						t.Logf("history %d: %s", seed, f)
						return
					}
				}
			}
			t.Errorf("nothing was noticed in %d histories", brokenHistories)
		})
	}
}
