package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A block of code in the README that names its source must be that source:
//
//	<!-- from examples/minimal/main.go -->
//	```go
//
// For Go the part between "snippet:start" and "snippet:end" counts, for other
// files all of it.
var fromFile = regexp.MustCompile("(?s)<!-- from (\\S+) -->\n```\\w*\n(.*?)```\n")

func TestReadmeShowsTheCodeOfTheExamples(t *testing.T) {
	readme := read(t, "../README.md")
	blocks := fromFile.FindAllStringSubmatch(readme, -1)
	if len(blocks) < 3 {
		t.Fatalf("only %d blocks of the README name their source", len(blocks))
	}
	for _, b := range blocks {
		file, shown := b[1], b[2]
		if want := snippet(read(t, "../"+file)); strings.TrimSpace(shown) != want {
			t.Errorf("the README does not show what stands in %s; it should be:\n%s", file, want)
		}
	}
	if all := strings.Count(readme, "```go\n"); all != strings.Count(readme, "-->\n```go\n") {
		t.Error("a block of Go code in the README names no source; take it from a compiled example")
	}
}

// The program of one's own is to be read in one go.
func TestTheProgramOfOnesOwnIsShort(t *testing.T) {
	lines := 0
	for line := range strings.Lines(snippet(read(t, "../examples/minimal/main.go"))) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			lines++
		}
	}
	if lines > 25 {
		t.Errorf("it has %d lines of code, and the README promises 25", lines)
	}
}

func snippet(text string) string {
	if _, after, ok := strings.Cut(text, "// snippet:start\n"); ok {
		text, _, _ = strings.Cut(after, "// snippet:end")
	}
	return strings.TrimSpace(text)
}

var (
	fenced = regexp.MustCompile("(?s)```.*?```")
	linked = regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`)
)

func TestLinksOfTheDocumentsPointAtFiles(t *testing.T) {
	for _, doc := range []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "framework/DESIGN.md", "sinks/README.md", "sinks/cassandra/PROTOCOL.md"} {
		prose := fenced.ReplaceAllString(read(t, "../"+doc), "")
		for _, m := range linked.FindAllStringSubmatch(prose, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join("..", filepath.Dir(doc), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", doc, m[1], err)
			}
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
