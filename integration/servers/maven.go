package servers

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"text/template"
)

// artifact is one package of Maven Central.
type artifact struct{ Group, Name, Version string }

// bundle is what one server needs on its class path: the artifacts and all that
// they depend on. The version names the directory in the cache; change it with
// the artifacts.
type bundle struct {
	name, version string
	artifacts     []artifact
}

//go:embed config/pom.xml.tmpl
var pomText string

var pomTemplate = template.Must(template.New("pom.xml").Parse(pomText))

// fetch returns the directory that holds the bundle's jars, complete and
// checked. It downloads them on first use, or if some are missing or changed.
// Processes that fetch at the same time wait for one another.
func (b bundle) fetch(ctx context.Context, log *slog.Logger) (string, error) {
	dir, err := b.cacheDir()
	if err != nil {
		return "", err
	}
	unlock, err := lockFile(ctx, dir+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if verifyManifest(dir) == nil {
		return dir, nil
	}
	log.Info("downloading jars", "server", b.name, "version", b.version, "to", dir)
	return dir, b.download(ctx, log, dir)
}

func (b bundle) cacheDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("servers: no place for the jars: %w: set HOME or XDG_CACHE_HOME", err)
	}
	parent := filepath.Join(cache, "lockstep", "jars")
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", fmt.Errorf("servers: no place for the jars: %w", err)
	}
	return filepath.Join(parent, b.name+"-"+b.version), nil
}

// download fills a fresh directory and moves it into place when it is complete,
// so that dir is never seen half full.
func (b bundle) download(ctx context.Context, log *slog.Logger, dir string) error {
	work, err := os.MkdirTemp(filepath.Dir(dir), b.name+"-download-")
	if err != nil {
		return fmt.Errorf("servers: no place for the jars: %w", err)
	}
	defer os.RemoveAll(work)
	jars := filepath.Join(work, "jars")
	if err := b.copyDependencies(ctx, log, work, jars); err != nil {
		return err
	}
	if err := writeManifest(jars); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("servers: cannot replace the damaged jars: %w", err)
	}
	return os.Rename(jars, dir)
}

func (b bundle) copyDependencies(ctx context.Context, log *slog.Logger, work, jars string) error {
	mvn, err := findMaven(ctx, log)
	if err != nil {
		return err
	}
	pom := filepath.Join(work, "pom.xml")
	if err := b.writePom(pom, jars); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, mvn, "--batch-mode", "--no-transfer-progress", "--file", pom, "dependency:copy-dependencies").CombinedOutput()
	if err != nil {
		return fmt.Errorf("servers: mvn could not download %s %s: %w: is Maven Central reachable?\nend of its output:\n%s", b.name, b.version, err, lastLines(out, tailLines))
	}
	return nil
}

func (b bundle) writePom(path, jars string) error {
	var pom bytes.Buffer
	err := pomTemplate.Execute(&pom, struct {
		Name      string
		Artifacts []artifact
		Dir       string
	}{b.name, b.artifacts, jars})
	if err != nil {
		return err
	}
	return os.WriteFile(path, pom.Bytes(), 0o644)
}
