package servers

import (
	"os"
	"path/filepath"
	"testing"
)

func TestManifest(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(dir string) error
		valid  bool
	}{
		{"untouched", func(string) error { return nil }, true},
		{"a jar is missing", func(dir string) error { return os.Remove(filepath.Join(dir, "b.jar")) }, false},
		{"a jar is cut short", func(dir string) error { return os.Truncate(filepath.Join(dir, "a.jar"), 1) }, false},
		{"no manifest", func(dir string) error { return os.Remove(filepath.Join(dir, manifestName)) }, false},
		{"an empty manifest", func(dir string) error { return os.Truncate(filepath.Join(dir, manifestName), 0) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			writeJars(t, dir, "a.jar", "b.jar")
			if err := writeManifest(dir); err != nil {
				t.Fatal(err)
			}
			if err := c.damage(dir); err != nil {
				t.Fatal(err)
			}
			if err := verifyManifest(dir); (err == nil) != c.valid {
				t.Errorf("got %v, want valid %t", err, c.valid)
			}
		})
	}
}

func TestManifestRefusesAnEmptyDownload(t *testing.T) {
	if err := writeManifest(t.TempDir()); err == nil {
		t.Error("a download without a jar was taken for complete")
	}
}

func writeJars(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("bytes of "+name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
