package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// totals count what was injected and what came of it. The zero value is not usable:
// make it with totals{}.
type totals map[string]int

var totalsMu sync.Mutex // one for all: they are counted rarely

func (t totals) add(name string, n int) {
	totalsMu.Lock()
	defer totalsMu.Unlock()
	t[name] += n
}

func (t totals) addAll(others totals) {
	totalsMu.Lock()
	defer totalsMu.Unlock()
	for name, n := range others {
		t[name] += n
	}
}

func (t totals) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(t)) {
		fmt.Fprintf(&b, "%9d %s\n", t[name], name)
	}
	return b.String()
}
