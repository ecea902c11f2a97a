package servers

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// manifestName is the file that lists a complete directory of jars, one
// "sha256 name" a line. It is written last.
const manifestName = "SHA256SUMS"

// writeManifest records every jar of dir. It is an error if there is none.
func writeManifest(dir string) error {
	jars, err := filepath.Glob(filepath.Join(dir, "*.jar"))
	if err != nil {
		return err
	}
	if len(jars) == 0 {
		return fmt.Errorf("servers: no jar in %s after the download", dir)
	}
	slices.Sort(jars)
	var lines strings.Builder
	for _, jar := range jars {
		sum, err := fileSum(jar)
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%s %s\n", sum, filepath.Base(jar))
	}
	return os.WriteFile(filepath.Join(dir, manifestName), []byte(lines.String()), 0o644)
}

// verifyManifest returns nil if every jar that the manifest of dir lists is
// there, unchanged.
func verifyManifest(dir string) error {
	f, err := os.Open(filepath.Join(dir, manifestName))
	if err != nil {
		return err
	}
	defer f.Close()
	jars := 0
	for lines := bufio.NewScanner(f); lines.Scan(); jars++ {
		if err := verifyLine(dir, lines.Text()); err != nil {
			return err
		}
	}
	if jars == 0 {
		return errors.New("the manifest lists nothing")
	}
	return nil
}

func verifyLine(dir, line string) error {
	want, name, _ := strings.Cut(line, " ")
	got, err := fileSum(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%s has changed since it was downloaded", name)
	}
	return nil
}

func fileSum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
