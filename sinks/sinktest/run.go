package sinktest

import (
	"context"
	"crypto/rand"
	"fmt"
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
	for _, text := range untested(h) {
		t.Log(text)
	}
	s, err := h.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range powerless(s) {
		t.Log(text)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for _, c := range casesFor(h) {
		t.Run(c.name, func(t *testing.T) { runCase(t.Context(), t, h, c) })
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
}

// casesFor returns the cases that concern what h promises and provides.
func casesFor[W any](h Harness[W]) []testCase[W] {
	var cases []testCase[W]
	for _, c := range allCases[W]() {
		if promised(h, c.needs) && missing(h, c.needs) == "" {
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

// missing names the optional field that a case needs and h does not have.
func missing[W any](h Harness[W], n need) string {
	switch {
	case n.refused && h.Refused == nil:
		return "Harness.Refused"
	case n.maxBatch && h.MaxBatch == 0:
		return "Harness.MaxBatch"
	case n.delete && h.Delete == nil:
		return "Harness.Delete"
	default:
		return ""
	}
}

// untested says which rules cannot be checked although the sink is bound by
// them, so that an author does not take them for checked.
func untested[W any](h Harness[W]) []string {
	var texts []string
	for _, c := range allCases[W]() {
		if field := missing(h, c.needs); field != "" && promised(h, c.needs) {
			texts = append(texts, fmt.Sprintf("not tested, since %s is not given: %s: %s", field, c.name, c.rule))
		}
	}
	return texts
}

func allCases[W any]() []testCase[W] {
	var all []testCase[W]
	for _, group := range [][]testCase[W]{
		guaranteeCases[W](), checkCases[W](), startCases[W](), topicCases[W](),
		saveCases[W](), atomicCases[W](), fenceCases[W](), stateCases[W](),
		deadLetterCases[W](), isolationCases[W](), concurrencyCases[W](),
		closeCases[W](), powerCases[W](), resetCases[W](),
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
