package servers

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestJavaMajor(t *testing.T) {
	for printed, want := range map[string]int{
		`openjdk version "17.0.15" 2025-04-15`: 17,
		`openjdk version "21" 2023-09-19`:      21,
		`java version "1.8.0_392"`:             1,
		`command not found`:                    0,
	} {
		if got := javaMajor(printed); got != want {
			t.Errorf("%s: got %d, want %d", printed, got, want)
		}
	}
}

func TestJavaHomeComesFirst(t *testing.T) {
	home := t.TempDir()
	java := filepath.Join(home, "bin", "java")
	writeScript(t, java, `echo 'openjdk version "99.0.1"' >&2`)
	t.Setenv("JAVA_HOME", home)
	if got, err := findJava(t.Context(), slog.New(slog.DiscardHandler)); got != java || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestMissingToolSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := findMaven(t.Context(), slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "install it so that mvn is in PATH") {
		t.Errorf("got %v", err)
	}
}

func TestAptInstallsTheFirstPackageThatExists(t *testing.T) {
	calls := fakeCommand(t, "apt-get", `case "$*" in *first*) exit 100;; esac`)
	err := aptInstall(t.Context(), slog.New(slog.DiscardHandler), 0, "first", "second", "third")
	if err != nil {
		t.Fatal(err)
	}
	want := "-q update\n-q install --yes --no-install-recommends first\n-q install --yes --no-install-recommends second\n"
	if got := calls(); got != want {
		t.Errorf("got calls\n%swant\n%s", got, want)
	}
}

// fakeCommand puts a command in front of PATH that notes its arguments, a line
// a call, before it runs the script. The function returns what was noted.
func fakeCommand(t *testing.T, name, script string) (calls func() string) {
	t.Helper()
	dir := t.TempDir()
	noted := filepath.Join(dir, "calls")
	writeScript(t, filepath.Join(dir, name), `echo "$*" >> '`+noted+"'\n"+script)
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return func() string {
		text, err := os.ReadFile(noted)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

func writeScript(t *testing.T, path, script string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}
