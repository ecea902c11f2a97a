package sinktest

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
)

// Run checks the sink that h describes, one subtest a rule.
func Run[W any](t *testing.T, h Harness[W]) {
	t.Helper()
	if err := h.validate(); err != nil {
		t.Fatal(err)
	}
	h = h.withDefaults()
	has, err := powersOf(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range casesFor(h) {
		t.Run(c.name, func(t *testing.T) {
			if lack := missing(h, has, c.needs); lack != "" {
				t.Skipf("not tested, since %s: %s", lack, c.rule)
			}
			runCase(t.Context(), t, h, c)
		})
	}
	if text := untested(h, has); text != "" {
		t.Log(text)
	}
}

// testCase checks one rule of the treaty.
type testCase[W any] struct {
	name  string
	rule  string // printed when the case fails
	needs need
	run   func(e *env[W])
}

// need says for which sinks a case is meant.
type need struct {
	exactlyOnce bool
	state       bool
	deadLetters bool
	refused     bool // Harness.Refused is given
	maxBatch    bool // Harness.MaxBatch is given
	delete      bool // Harness.Delete is given
	hold        bool // Harness.Hold is given
	power       power
}

// casesFor returns the cases that concern what h promises.
func casesFor[W any](h Harness[W]) []testCase[W] {
	var cases []testCase[W]
	for _, c := range allCases[W]() {
		if promised(h, c.needs) {
			cases = append(cases, c)
		}
	}
	return cases
}

// promised reports whether a case is about what the sink promises.
func promised[W any](h Harness[W], n need) bool {
	return (!n.exactlyOnce || h.Guarantee.Level >= framework.ExactlyOnce) &&
		(!n.state || h.Guarantee.State) &&
		(!n.deadLetters || h.Guarantee.DeadLetters)
}

// missing says what a case needs that h or the sink does not have.
func missing[W any](h Harness[W], has powers, n need) string {
	for _, field := range []struct {
		lacks bool
		name  string
	}{
		{n.delete && h.Delete == nil, "Delete"},
		{n.hold && h.Hold == nil, "Hold"},
		{n.maxBatch && h.MaxBatch == 0, "MaxBatch"},
		{n.refused && h.Refused == nil, "Refused"},
	} {
		if field.lacks {
			return fmt.Sprintf("Harness.%s is not given", field.name)
		}
	}
	if n.power != "" && !has[n.power] {
		return fmt.Sprintf("the sink is no framework.%s", n.power)
	}
	return ""
}

// untested says in one line which cases were skipped although the sink may be
// bound by them, so that an author does not take them for passed.
func untested[W any](h Harness[W], has powers) string {
	var reasons []string
	cases, skipped := map[string][]string{}, 0
	for _, c := range casesFor(h) {
		lack := missing(h, has, c.needs)
		if lack == "" {
			continue
		}
		if cases[lack] == nil {
			reasons = append(reasons, lack)
		}
		cases[lack] = append(cases[lack], c.name)
		skipped++
	}
	if skipped == 0 {
		return ""
	}
	for i, lack := range reasons {
		reasons[i] = fmt.Sprintf("%s (%s)", lack, strings.Join(cases[lack], ", "))
	}
	return fmt.Sprintf("not tested: %d of %d cases: %s", skipped, len(casesFor(h)), strings.Join(reasons, "; "))
}

func allCases[W any]() []testCase[W] {
	var all []testCase[W]
	for _, group := range [][]testCase[W]{
		guaranteeCases[W](), checkCases[W](), startCases[W](), topicCases[W](),
		saveCases[W](), atomicCases[W](), fenceCases[W](), stateCases[W](),
		deadLetterCases[W](), isolationCases[W](), concurrencyCases[W](),
		closeCases[W](), waitCases[W](), answerCases[W](),
		powerCases[W](), resetCases[W](), operatorCases[W](),
	} {
		all = append(all, group...)
	}
	return all
}

// reporter is the part of *testing.T that a case uses.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
	FailNow()
}

func runCase[W any](ctx context.Context, r reporter, h Harness[W], c testCase[W]) {
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	e := &env[W]{
		h:        h,
		ctx:      ctx,
		r:        r,
		rule:     c.rule,
		pipeline: fmt.Sprintf("sinktest-%s", rand.Text()),
	}
	defer e.closeAll()
	c.run(e)
}
