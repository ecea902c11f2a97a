package sinktest

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/lockstep-stream/lockstep/framework"
)

func stateCases[W any]() []testCase[W] {
	needs := need{state: true}
	return []testCase[W]{{
		name:  "state_order",
		rule:  "Load returns the value of each key in the order of keys, nil where there is none",
		needs: needs,
		run:   stateOrder[W],
	}, {
		name:  "state_follows_saves",
		rule:  "Load reflects every save of this claim that has returned nil, and of earlier claims",
		needs: needs,
		run: func(e *env[W]) {
			c := e.claim(e.lane(0))
			for n := range int64(5) {
				number := strconv.FormatInt(n, 10)
				e.saveState(c, n, entry("op", 0, "k", number))
				e.wantState(c, want{"op", 0, "k", number})
			}
			e.wantState(e.claim(e.lane(0)), want{"op", 0, "k", "4"})
		},
	}, {
		name:  "state_nil_removes",
		rule:  "an entry with a nil value removes the key; an empty value is a value",
		needs: needs,
		run:   stateNilRemoves[W],
	}, {
		name:  "state_windows",
		rule:  "a key has one value for each window, and 0 is the running total",
		needs: needs,
		run: func(e *env[W]) {
			c := e.claim(e.lane(0))
			windows := []int64{0, 1, -1, 60_000, 1_700_000_000_000, 1 << 62, -1 << 62}
			var all []framework.StateEntry
			var wants []want
			for _, w := range windows {
				all = append(all, entry("op", w, "k", fmt.Sprint(w)))
				wants = append(wants, want{"op", w, "k", fmt.Sprint(w)})
			}
			e.saveState(c, 0, all...)
			e.wantState(c, wants...)
			e.saveState(c, 1, framework.StateEntry{StateKey: stateKey("op", 0, "k")})
			wants[0].value = ""
			e.wantState(e.claim(e.lane(0)), wants...)
		},
	}, {
		name:  "state_keys_kept_apart",
		rule:  "operators and keys are kept byte for byte, whatever bytes they hold",
		needs: needs,
		run:   stateKeysKeptApart[W],
	}, {
		name:  "state_large",
		rule:  "keys and values of some kilobytes, and thousands of keys in one Load, are allowed",
		needs: needs,
		run:   stateLarge[W],
	}, {
		name:  "state_load_during_save",
		rule:  "Load may overlap a Save, for keys that the save does not touch",
		needs: needs,
		run:   stateLoadDuringSave[W],
	}, {
		name:  "state_only",
		rule:  "a batch of nothing but state is saved with its position",
		needs: needs,
		run: func(e *env[W]) {
			e.saveState(e.claim(e.lane(0)), 0, entry("op", 0, "k", "v"))
			c := e.claim(e.lane(0))
			if at := c.Progress().Position.Offset; at != 1 {
				e.fatalf("the position is %d, want 1", at)
			}
			e.wantState(c, want{"op", 0, "k", "v"})
		},
	}}
}

func stateKey(operator string, window int64, key string) framework.StateKey {
	return framework.StateKey{Operator: operator, Window: window, Key: []byte(key)}
}

func entry(operator string, window int64, key, value string) framework.StateEntry {
	return framework.StateEntry{StateKey: stateKey(operator, window, key), Value: []byte(value)}
}

// saveState saves entries with the step from offset n to n+1.
func (e *env[W]) saveState(c framework.Claim[W], n int64, entries ...framework.StateEntry) {
	e.r.Helper()
	b := moveBatch[W](n, n+1)
	b.State = entries
	e.save(c, b)
}

// want is the value that a state key should have, "" meaning none.
type want struct {
	operator string
	window   int64
	key      string
	value    string
}

// wantState loads all the keys at once.
func (e *env[W]) wantState(c framework.Claim[W], wants ...want) {
	e.r.Helper()
	keys := make([]framework.StateKey, len(wants))
	for i, w := range wants {
		keys[i] = stateKey(w.operator, w.window, w.key)
	}
	for i, v := range e.load(c, keys...) {
		w := wants[i]
		if string(v) != w.value || (v == nil) != (w.value == "") {
			e.fatalf("operator %q, window %d, key %s: loaded %s (nil: %t), want %s",
				w.operator, w.window, shorten(w.key), shorten(string(v)), v == nil, shorten(w.value))
		}
	}
}

func stateOrder[W any](e *env[W]) {
	c := e.claim(e.lane(0))
	e.wantState(c) // of no keys
	e.wantState(c, want{"op", 0, "a", ""}, want{"op", 0, "b", ""})
	e.saveState(c, 0, entry("op", 0, "a", "1"), entry("op", 0, "c", "3"), entry("op2", 0, "a", "4"))
	for range 2 {
		e.wantState(c,
			want{"op", 0, "c", "3"}, want{"op", 0, "b", ""}, want{"op2", 0, "a", "4"},
			want{"op", 0, "a", "1"}, want{"op2", 0, "c", ""})
		c = e.claim(e.lane(0))
	}
}

func stateNilRemoves[W any](e *env[W]) {
	c := e.claim(e.lane(0))
	e.saveState(c, 0, entry("op", 0, "a", "1"), entry("op", 0, "b", "2"), entry("op", 0, "empty", ""))
	if v := e.load(c, stateKey("op", 0, "empty"))[0]; v == nil || len(v) != 0 {
		e.fatalf("an empty value was saved, loaded %q (nil: %t)", v, v == nil)
	}
	e.saveState(c, 1,
		framework.StateEntry{StateKey: stateKey("op", 0, "a")},
		framework.StateEntry{StateKey: stateKey("op", 0, "never there")},
		entry("op", 0, "c", "3"))
	for range 2 {
		e.wantState(c, want{"op", 0, "a", ""}, want{"op", 0, "b", "2"}, want{"op", 0, "c", "3"}, want{"op", 0, "never there", ""})
		c = e.claim(e.lane(0))
	}
	e.saveState(c, 2, entry("op", 0, "a", "again"))
	e.wantState(e.claim(e.lane(0)), want{"op", 0, "a", "again"})
}

func stateKeysKeptApart[W any](e *env[W]) {
	operators := []string{"a-b", "ab", "a_b", "a.b", "A-B", "a b", "ab ", "äb", "a/b", "a'b"}
	keys := []string{"", "\x00", "\x00\x00", "k", "K", "k ", "k\x00", "\xff", "\xff\xfe", "0", "00"}
	var entries []framework.StateEntry
	var wants []want
	for _, op := range operators {
		for _, key := range keys {
			value := fmt.Sprintf("%q %q", op, key)
			entries = append(entries, entry(op, 0, key, value))
			wants = append(wants, want{op, 0, key, value})
		}
	}
	e.saveState(e.claim(e.lane(0)), 0, entries...)
	e.wantState(e.claim(e.lane(0)), wants...)
}

func stateLarge[W any](e *env[W]) {
	c := e.claim(e.lane(0))
	longKey, longValue := strings.Repeat("k", 8<<10), strings.Repeat("v", 64<<10)
	entries := []framework.StateEntry{entry("op", 0, longKey, longValue), entry("op", 0, longKey+"2", "other")}
	wants := []want{{"op", 0, longKey, longValue}, {"op", 0, longKey + "2", "other"}}
	for i := range 3000 {
		n := strconv.Itoa(i)
		entries = append(entries, entry("op", 0, n, "value "+n))
		wants = append(wants, want{"op", 0, n, "value " + n}, want{"op", 0, "none " + n, ""})
	}
	e.saveState(c, 0, entries...)
	e.wantState(c, wants...)
}

func stateLoadDuringSave[W any](e *env[W]) {
	c := e.claim(e.lane(0))
	e.saveState(c, 0, entry("op", 0, "still", "1"))
	for n := range int64(10) {
		var saveErr, loadErr error
		var values [][]byte
		var wg sync.WaitGroup
		wg.Go(func() {
			b := moveBatch[W](n+1, n+2)
			b.State = []framework.StateEntry{entry("op", 0, "moving", strconv.FormatInt(n, 10))}
			b.Writes = []W{e.h.Write(e.key("row"), "v")}
			saveErr = c.Save(e.ctx, b)
		})
		wg.Go(func() {
			values, loadErr = c.Load(e.ctx, []framework.StateKey{stateKey("op", 0, "still"), stateKey("op", 0, "none")})
		})
		wg.Wait()
		if saveErr != nil || loadErr != nil {
			e.fatalf("Save returned %v, Load beside it %v", saveErr, loadErr)
		}
		if len(values) != 2 || string(values[0]) != "1" || values[1] != nil {
			e.fatalf("Load beside a Save returned %q", values)
		}
	}
}
