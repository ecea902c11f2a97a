package customsink_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const page = "../../sinks/README.md"

// A block of Go code on the page names the file and the part that it shows:
//
//	<!-- from examples/customsink/files.go publish -->
//
// where the part stands between "snippet:start publish" and "snippet:end".
var (
	shown  = regexp.MustCompile("(?s)<!-- from (\\S+) (\\S+) -->\n```go\n(.*?)```\n")
	fenced = regexp.MustCompile("(?s)```.*?```")
	linked = regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`)
)

func TestThePageShowsTheCodeOfTheExample(t *testing.T) {
	text := read(t, page)
	blocks := shown.FindAllStringSubmatch(text, -1)
	if all := strings.Count(text, "```go\n"); len(blocks) == 0 || all != len(blocks) {
		t.Errorf("%d of %d blocks of Go code name their source", len(blocks), all)
	}
	for _, b := range blocks {
		file, part, code := b[1], b[2], b[3]
		if want := snippet(t, file, part); strings.TrimSpace(code) != want {
			t.Errorf("the page does not show part %q of %s; it should be:\n%s", part, file, want)
		}
	}
}

func TestLinksOfThePagePointAtFiles(t *testing.T) {
	for _, m := range linked.FindAllStringSubmatch(fenced.ReplaceAllString(read(t, page), ""), -1) {
		if strings.Contains(m[1], "://") {
			continue
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
			t.Errorf("the page links to %s: %v", m[1], err)
		}
	}
}

func snippet(t *testing.T, file, part string) string {
	t.Helper()
	_, after, ok := strings.Cut(read(t, "../../"+file), "// snippet:start "+part+"\n")
	code, _, ended := strings.Cut(after, "// snippet:end")
	if !ok || !ended {
		t.Fatalf("%s has no part %q", file, part)
	}
	return strings.TrimSpace(code)
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
