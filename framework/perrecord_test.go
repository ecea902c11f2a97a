package framework_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/frameworktest"
	"github.com/lockstep-stream/lockstep/sinks/memory"
)

// Goroutines are started for lanes and saves, not for records or deliveries.
func TestNoGoroutineIsStartedPerRecord(t *testing.T) {
	const records = 50_000
	log := frameworktest.NewLog()
	for range records {
		log.Produce("in", 0, "a=1")
	}
	var saves atomic.Uint64
	cfg := framework.Config{BatchDelay: time.Hour, Hooks: framework.Hooks{Saved: func(framework.SavedEvent) { saves.Add(1) }}}
	sink := memory.NewStoreKeeping[row](memory.KeepCounts).Open(memory.Options[row]{})
	r, err := framework.NewRunner(pipelineOf(t, sumOf), frameworktest.NewSource(log), sink, cfg)
	if err != nil {
		t.Fatal(err)
	}
	before := goroutinesStarted()
	if err := frameworktest.RunUntilSaved(t.Context(), r, log); err != nil {
		t.Fatal(err)
	}
	// A save is one goroutine; a few more belong to contexts and timers.
	if started, allowed := goroutinesStarted()-before, 4*saves.Load()+100; started > allowed {
		t.Errorf("%d goroutines were started for %d records in %d saves, want at most %d", started, records, saves.Load(), allowed)
	}
}

func goroutinesStarted() uint64 {
	s := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// What runs for each record uses no channel, goroutine or lock: everything that is
// called from the record loop, and every operator, is searched for them.
func TestRecordsPassWithoutChannelsLocksOrGoroutines(t *testing.T) {
	src := parsePackage(t)
	reached := src.reachable("process", "output", "decodeInto", "derive", "Map", "MapErr", "Filter", "FilterErr", "FlatMap", "FlatMapErr", "Merge", "emit", "add")
	for _, must := range []string{"attempt", "enter", "pass", "newGroup", "positionOnly"} {
		if !reached[must] {
			t.Fatalf("%s is not found to be called for a record: the search is broken", must)
		}
	}
	for name := range reached {
		for _, f := range src.funcs[name] {
			for _, found := range src.costly(f) {
				t.Errorf("%s: %s, called for each record", found, name)
			}
		}
	}
}

// The search finds what it is for.
func TestSearchFindsChannelsLocksAndGoroutines(t *testing.T) {
	src := parsePackage(t)
	for name, want := range map[string]string{"launch": "goroutine", "signal": "select", "put": "lock", "collect": "receive"} {
		var found []string
		for _, f := range src.funcs[name] {
			found = append(found, src.costly(f)...)
		}
		if !strings.Contains(strings.Join(found, "\n"), want) {
			t.Errorf("%s: found %q, want a %s", name, found, want)
		}
	}
}

// sourceCode is the package's own code, by the names of its functions and methods.
type sourceCode struct {
	set   *token.FileSet
	funcs map[string][]*ast.FuncDecl
}

func parsePackage(t *testing.T) *sourceCode {
	t.Helper()
	s := &sourceCode{set: token.NewFileSet(), funcs: map[string][]*ast.FuncDecl{}}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(s.set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		s.take(f)
	}
	return s
}

func (s *sourceCode) take(f *ast.File) {
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			s.funcs[fn.Name.Name] = append(s.funcs[fn.Name.Name], fn)
		}
	}
}

// reachable returns the names that are called from roots, by name alone: too many
// rather than too few.
func (s *sourceCode) reachable(roots ...string) map[string]bool {
	reached := map[string]bool{}
	for len(roots) > 0 {
		name := roots[0]
		roots = roots[1:]
		if reached[name] || s.funcs[name] == nil {
			continue
		}
		reached[name] = true
		for _, f := range s.funcs[name] {
			roots = append(roots, callsOf(f)...)
		}
	}
	return reached
}

func callsOf(f *ast.FuncDecl) (names []string) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			names = append(names, nameOf(call.Fun))
		}
		return true
	})
	return names
}

func nameOf(called ast.Expr) string {
	switch f := called.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	case *ast.IndexExpr:
		return nameOf(f.X)
	}
	return ""
}

// costly returns where f does something that a single record must not cost.
func (s *sourceCode) costly(f *ast.FuncDecl) (found []string) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if what := costOf(n); what != "" {
			found = append(found, fmt.Sprintf("%s: a %s", s.set.Position(n.Pos()), what))
		}
		return true
	})
	return found
}

func costOf(n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "goroutine"
	case *ast.SendStmt:
		return "send to a channel"
	case *ast.SelectStmt:
		return "select"
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			return "receive from a channel"
		}
	case *ast.CallExpr:
		if name := nameOf(n.Fun); name == "Lock" || name == "RLock" {
			return "lock"
		}
	}
	return ""
}
