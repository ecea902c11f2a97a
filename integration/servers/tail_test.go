package servers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLastLines(t *testing.T) {
	for _, c := range []struct {
		name, text string
		n          int
		want       string
	}{
		{"none", "", 2, ""},
		{"fewer than asked", "a\n", 2, "a"},
		{"more than asked", "a\nb\nc\n", 2, "b\nc"},
		{"no final line end", "a\nb\nc", 2, "b\nc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := lastLines([]byte(c.text), c.n); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestTailFileReadsOnlyTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	text := strings.Repeat("early\n", tailBytes) + "late\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(tailFile(path), "\n")
	if len(got) != tailLines || got[len(got)-1] != "late" {
		t.Errorf("got %d lines that end in %q", len(got), got[len(got)-1])
	}
}

func TestTailFileSaysWhyThereIsNone(t *testing.T) {
	if got := tailFile(filepath.Join(t.TempDir(), "none")); !strings.Contains(got, "no log") {
		t.Errorf("got %q", got)
	}
}
