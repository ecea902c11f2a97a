package integration

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/lockstep-stream/lockstep/"

// room is a folder of the module and what its packages may import: other rooms
// to its left, and the outside modules that are its own. The first room that
// fits a package counts.
type room struct {
	path    string
	rooms   []string
	outside []string
}

// Libraries that are no driver, and that any room may use for what they do.
var common = []string{
	"github.com/cenkalti/backoff/v5", // waiting between tries
	"golang.org/x/sync",              // semaphores and groups
}

var core = []string{"offsetstore", "framework"}

var rooms = []room{
	{path: "offsetstore/kafkastore", rooms: []string{"offsetstore"}, outside: []string{"github.com/twmb/franz-go"}},
	{path: "offsetstore"},
	{path: "framework/codec", rooms: core, outside: []string{"github.com/goccy/go-json"}},
	{path: "framework/frameworktest", rooms: core},
	{path: "framework/frameworkfx", rooms: core, outside: []string{"go.uber.org/fx"}},
	{path: "framework", rooms: []string{"offsetstore"}, outside: []string{"github.com/hashicorp/golang-lru/v2"}},
	{path: "sources/kafka", rooms: core, outside: []string{"github.com/twmb/franz-go"}},
	{path: "sources/sourcetest", rooms: core},
	{path: "sources/watermill", rooms: core, outside: []string{"github.com/ThreeDotsLabs/watermill", "github.com/ThreeDotsLabs/watermill-kafka/v3", "github.com/IBM/sarama"}},
	{path: "sinks/sinktest", rooms: core},
	{path: "sinks/memory", rooms: core},
	{path: "sinks/cassandra", rooms: core, outside: []string{"github.com/gocql/gocql", "gopkg.in/inf.v0", "github.com/klauspost/compress", "github.com/google/uuid"}},
	{path: "sinks/sql", rooms: core, outside: []string{"modernc.org/sqlite", "github.com/jackc/pgx"}},
	// The rim may use everything.
	{path: "cmd", rooms: []string{""}, outside: []string{""}},
	{path: "examples", rooms: []string{""}, outside: []string{""}},
	{path: "integration", rooms: []string{""}, outside: []string{""}},
}

// Imports point from the rim to the core: a sink knows the framework, the
// framework knows no sink, and no sink knows another.
func TestImportsPointOneWay(t *testing.T) {
	packages := list(t)
	for pkg, imports := range packages {
		r, ok := roomOf(pkg)
		if !ok {
			t.Errorf("package %s stands in no room; give it one here and in the README's map", pkg)
			continue
		}
		for _, imp := range imports {
			if problem := r.refuses(imp); problem != "" {
				t.Errorf("%s -> %s: %s", pkg, imp, problem)
			}
		}
	}
}

// The check itself can fail.
func TestBrokenArrowsAreNamed(t *testing.T) {
	for _, c := range []struct{ pkg, imp string }{
		{"framework", module + "sinks/memory"},
		{"framework", "github.com/gocql/gocql"},
		{"offsetstore", module + "framework"},
		{"sinks/memory", module + "sinks/sql"},
		{"sinks/sql", module + "sources/kafka"},
		{"sinks/cassandra", "modernc.org/sqlite"},
	} {
		r, ok := roomOf(c.pkg)
		if !ok || r.refuses(c.imp) == "" {
			t.Errorf("%s may import %s", c.pkg, c.imp)
		}
	}
}

func roomOf(pkg string) (room, bool) {
	i := slices.IndexFunc(rooms, func(r room) bool { return within(pkg, r.path) })
	if i < 0 {
		return room{}, false
	}
	return rooms[i], true
}

func (r room) refuses(imp string) string {
	if inner, ok := strings.CutPrefix(imp, module); ok {
		if within(inner, r.path) || r.mayUse(inner) {
			return ""
		}
		return "this room may import only " + strings.Join(append(r.rooms, "itself"), ", ")
	}
	first, _, _ := strings.Cut(imp, "/")
	outside := func(allowed string) bool { return within(imp, allowed) }
	if !strings.Contains(first, ".") || slices.ContainsFunc(r.outside, outside) || slices.ContainsFunc(common, outside) {
		return ""
	}
	return "this outside module is not one of the room's own"
}

// mayUse reports whether the room may import the package inner of the module. A
// room named exactly does not open what lies below it: framework does not mean
// framework/codec.
func (r room) mayUse(inner string) bool {
	return slices.Contains(r.rooms, "") || slices.Contains(r.rooms, inner)
}

func within(path, folder string) bool {
	return folder == "" || path == folder || strings.HasPrefix(path, folder+"/")
}

// list returns the direct imports of every package of the module, by path
// within the module. By induction that covers indirect ones.
func list(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		packages[strings.TrimPrefix(fields[0], module)] = fields[1:]
	}
	if len(packages) < 5 {
		t.Fatalf("go list names only %d packages", len(packages))
	}
	return packages
}
