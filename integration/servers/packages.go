package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"text/template"
)

// packages is the host without Docker: each server is a process, of Java but for
// PostgreSQL, with a directory of its own below dir.
type packages struct {
	dir   string
	java  string
	fast  bool
	tls   *certificates // nil without TLS
	log   *slog.Logger
	guard *guard

	mu      sync.Mutex
	running []*process
}

func newPackages(ctx context.Context, o Options) (*packages, error) {
	java, err := javaFor(ctx, o)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "lockstep-servers-")
	if err != nil {
		return nil, fmt.Errorf("servers: no place for the data: %w", err)
	}
	certificates, err := certificatesFor(o, dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	// The pause lets processes that die with this one stop writing.
	guard, err := newGuard("sh", "-c", `sleep 1; rm -rf -- "$1"`, "sh", dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &packages{dir: dir, java: java, fast: o.FastStart, tls: certificates, log: o.Logger, guard: guard}, nil
}

// javaFor finds Java if a server needs it.
func javaFor(ctx context.Context, o Options) (string, error) {
	if !o.Kafka && !o.Cassandra && !o.CassandraAuth {
		return "", nil
	}
	return findJava(ctx, o.Logger)
}

func certificatesFor(o Options, dir string) (*certificates, error) {
	if !o.TLS {
		return nil, nil
	}
	return makeCertificates(dir)
}

// close kills all processes at once: nobody wants their data any more.
func (p *packages) close(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var failed error
	for _, proc := range p.running {
		failed = errors.Join(failed, proc.kill(ctx))
	}
	return errors.Join(failed, os.RemoveAll(p.dir), p.guard.release())
}

// fastStart stops at the quick compiler: most of what a server runs while it
// starts never pays back the thorough one.
const fastStart = "-XX:TieredStopAtLevel=1"

// process returns a Java process that runs in dir and is ended by close.
func (p *packages) process(dir string, args ...string) *process {
	if p.fast {
		args = append([]string{fastStart}, args...)
	}
	return p.keep(&process{path: p.java, args: args, dir: dir, log: filepath.Join(dir, "server.log")})
}

// keep has proc ended by close.
func (p *packages) keep(proc *process) *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = append(p.running, proc)
	return proc
}

// serverDir makes the directory of one server, with a place for its temporary
// files.
func (p *packages) serverDir(name string) (string, error) {
	dir := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Join(dir, "tmp"), 0o755); err != nil {
		return "", fmt.Errorf("servers: no place for the data: %w", err)
	}
	return dir, nil
}

// writeFrom writes what the template makes of values to path.
func writeFrom(t *template.Template, values any, path string) error {
	var text bytes.Buffer
	if err := t.Execute(&text, values); err != nil {
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o644)
}
