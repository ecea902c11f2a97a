package sourcetest

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Run checks a source with these features, one subtest a rule. It calls
// newHarness once for each, with the subtest.
func Run(t *testing.T, f Features, newHarness func(t *testing.T) Harness) {
	t.Helper()
	for _, c := range casesFor(f) {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t)
			if err := h.validate(f); err != nil {
				t.Fatal(err)
			}
			if field := missing(h, c.needs); field != "" {
				t.Logf("not tested, since %s is not given: %s", field, c.rule)
				return
			}
			runCase(t.Context(), t, h.withDefaults(), c)
		})
	}
}

// testCase checks one rule of the treaty.
type testCase struct {
	name  string
	rule  string // printed when the case fails
	needs need
	run   func(e *env)
}

// need says for which sources a case is meant.
type need struct {
	features Features // those that are set must be
	gap      bool     // Harness.Gap is given
	evict    bool     // Harness.Evict is given
}

// casesFor returns the cases that concern a source with these features.
func casesFor(f Features) []testCase {
	return slices.DeleteFunc(allCases(), func(c testCase) bool { return !f.include(c.needs.features) })
}

func (f Features) include(n Features) bool {
	return (f.Log || !n.Log) && (f.Retention || !n.Retention) && (f.TopicIDs || !n.TopicIDs) && (f.LeaderEpochs || !n.LeaderEpochs) &&
		(f.Groups || !n.Groups) && (f.Cooperative || !n.Cooperative) && (f.WholeRecords || !n.WholeRecords)
}

// missing names the optional field that a case needs and h does not have.
func missing(h Harness, n need) string {
	switch {
	case n.gap && h.Gap == nil:
		return "Harness.Gap"
	case n.evict && h.Evict == nil:
		return "Harness.Evict"
	default:
		return ""
	}
}

func allCases() []testCase {
	return slices.Concat(startCases(), readCases(), flowCases(), positionCases(), groupCases(), stopCases())
}

// reporter is the part of *testing.T that a case uses.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
	FailNow()
}

func runCase(ctx context.Context, r reporter, h Harness, c testCase) {
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	name := fmt.Sprintf("sourcetest-%s", strings.ToLower(rand.Text()[:10]))
	e := &env{h: h, ctx: ctx, r: r, rule: c.rule, topic: name, group: name + "-group"}
	defer e.closeAll()
	c.run(e)
}
