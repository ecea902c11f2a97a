package sinktest

import (
	"strings"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

func guaranteeCases[W any]() []testCase[W] {
	return []testCase[W]{{
		name: "guarantee_as_declared",
		rule: "Guarantee is what the harness declares, and constant",
		run: func(e *env[W]) {
			s := e.open()
			want := e.h.Guarantee
			for _, when := range []string{"after Open", "after Close"} {
				got := s.Guarantee()
				if got.Level != want.Level || got.State != want.State || got.DeadLetters != want.DeadLetters {
					e.fatalf("%s Guarantee is %+v, declared was %+v", when, got, want)
				}
				if err := s.Close(e.ctx); err != nil {
					e.fatalf("Close returned %v", err)
				}
			}
		},
	}}
}

func checkCases[W any]() []testCase[W] {
	return []testCase[W]{{
		name: "check_size",
		rule: "Check returns the encoded size of a write in bytes, the same each time",
		run:  checkSize[W],
	}, {
		name: "check_keeps_its_word",
		rule: "Check refuses a write that could never be saved; one that it accepts is saved, and its row reads back unchanged",
		run:  checkKeepsItsWord[W],
	}}
}

func checkSize[W any](e *env[W]) {
	s := e.open()
	for _, length := range []int{1, 100, 10_000} {
		w := e.h.Write(e.key("size"), strings.Repeat("v", length))
		first, err := s.Check(w)
		if err != nil {
			e.fatalf("a value of %d bytes: Check returned %v", length, err)
		}
		if first < length {
			e.fatalf("a value of %d bytes: Check counts only %d bytes", length, first)
		}
		if again, err := s.Check(w); again != first || err != nil {
			e.fatalf("Check returned %d, then %d (%v) for the same write", first, again, err)
		}
	}
	e.wantRows(map[string]string{e.key("size"): ""})
}

// checkKeepsItsWord saves one write a batch, so that the one at fault is known.
func checkKeepsItsWord[W any](e *env[W]) {
	s := e.open()
	c := e.claimOn(s, e.lane(0), offsetstore.At(0))
	at := framework.Progress{Position: offsetstore.At(0)}
	for name, row := range map[string]struct{ key, value string }{
		"an empty key":            {"", "v"},
		"a key that is NUL":       {"\x00", "v"},
		"a NUL inside a key":      {e.key("a\x00b"), "v"},
		"a key of invalid UTF-8":  {e.key("\xff\xfe"), "v"},
		"a key beyond ASCII":      {e.key("schlüssel-鍵-🔑"), "v"},
		"a key with quotes":       {e.key(`'"; --%%`), "v"},
		"a key ending in a blank": {e.key("blank "), "v"},
		"a key of 70,000 bytes":   {e.key("%s", strings.Repeat("k", 70_000)), "v"},
		"an empty value":          {e.key("empty"), ""},
		"a value with a NUL":      {e.key("nul"), "a\x00b"},
		"a value of 1 MiB":        {e.key("big"), strings.Repeat("v", 1<<20)},
	} {
		w := e.h.Write(row.key, row.value)
		if _, err := s.Check(w); err != nil {
			if err.Error() == "" {
				e.fatalf("%s: Check refuses it without a reason", name)
			}
			continue
		}
		to := framework.Progress{Position: offsetstore.At(at.Position.Offset + 1)}
		if err := c.Save(e.ctx, &framework.Batch[W]{From: at, To: to, Writes: []W{w}}); err != nil {
			e.fatalf("%s: Check accepted it, Save returned %v", name, err)
		}
		at = to
		if got, ok := e.rows(row.key)[row.key]; !ok || got != row.value {
			e.fatalf("%s: the row holds %s (found: %t), want %s", name, shorten(got), ok, shorten(row.value))
		}
	}
}
