package servers

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// fakeMaven writes a jar where the pom says, as mvn would.
const fakeMaven = `dir=$(sed -n 's:.*<outputDirectory>\(.*\)</outputDirectory>.*:\1:p' "$4")
mkdir -p "$dir" && sleep 0.1 && echo bytes > "$dir/server.jar"`

var testBundle = bundle{name: "server", version: "1", artifacts: []artifact{{"g", "a", "1"}}}

func fetchTestBundle(t *testing.T) (string, error) {
	t.Helper()
	return testBundle.fetch(t.Context(), slog.New(slog.DiscardHandler))
}

func TestFetchDownloadsOnceForAllWhoAsk(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	calls := fakeCommand(t, "mvn", fakeMaven)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if dir, err := fetchTestBundle(t); err != nil || verifyManifest(dir) != nil {
				t.Errorf("got %s, %v", dir, err)
			}
		})
	}
	all.Wait()
	if n := strings.Count(calls(), "\n"); n != 1 {
		t.Errorf("downloaded %d times, want once", n)
	}
}

func TestFetchReplacesDamagedJars(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	calls := fakeCommand(t, "mvn", fakeMaven)
	dir, err := fetchTestBundle(t)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "server.jar"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := fetchTestBundle(t); err != nil || verifyManifest(dir) != nil {
		t.Errorf("still damaged: %v", err)
	}
	if n := strings.Count(calls(), "\n"); n != 2 {
		t.Errorf("downloaded %d times, want twice", n)
	}
}

func TestFailedFetchShowsMavenAndLeavesNothing(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	fakeCommand(t, "mvn", "echo no such artifact; exit 1")
	if _, err := fetchTestBundle(t); err == nil || !strings.Contains(err.Error(), "no such artifact") {
		t.Errorf("got %v", err)
	}
	left, err := filepath.Glob(filepath.Join(cache, "lockstep", "jars", "*"))
	if err != nil || len(left) != 1 || !strings.HasSuffix(left[0], ".lock") {
		t.Errorf("left %v, %v", left, err)
	}
}
