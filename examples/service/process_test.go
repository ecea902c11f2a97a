package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// programs are the files of both programs, by name.
var programs map[string]string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "service")
	if err == nil {
		err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(code)
	}))
}

// build builds both programs.
func build(dir string) error {
	programs = map[string]string{"fx": filepath.Join(dir, "service"), "plain": filepath.Join(dir, "plain")}
	out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", dir+"/", ".", "./plain").CombinedOutput()
	if err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// process is a running service.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	log   *log
	ended chan struct{}
	err   error // valid once ended is closed
}

func start(t *testing.T, program string, args ...string) *process {
	t.Helper()
	p := &process{t: t, log: &log{}, ended: make(chan struct{})}
	p.cmd = exec.Command(program, append(args, "--listen", "127.0.0.1:0")...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		p.err = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has ended already unless the test failed
		<-p.ended
	})
	return p
}

var listening = regexp.MustCompile(`listening address=(\S+)`)

// address is where the process answers HTTP.
func (p *process) address() string {
	p.t.Helper()
	var found []string
	p.await("it listens", func() bool {
		found = listening.FindStringSubmatch(p.log.String())
		return found != nil
	})
	return found[1]
}

// client keeps no connections, which would be left over.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// get returns the status and body of a page.
func (p *process) get(path string) (int, string) {
	p.t.Helper()
	resp, err := client.Get("http://" + p.address() + path)
	if err != nil {
		p.fatalf("%s: %v", path, err)
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(resp.Body); err != nil {
		p.fatalf("%s: %v", path, err)
	}
	return resp.StatusCode, body.String()
}

// await waits until done says so, for a minute at most, while the process runs.
func (p *process) await(what string, done func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		select {
		case <-p.ended:
			p.fatalf("waiting until %s: the process has ended: %v", what, p.err)
		default:
		}
		if time.Now().After(deadline) {
			p.fatalf("waited in vain until %s", what)
		}
	}
}

// terminate asks the process to stop and returns its exit code.
func (p *process) terminate() int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.fatalf("SIGTERM: %v", err)
	}
	return p.exitCode()
}

func (p *process) exitCode() int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(time.Minute):
		p.fatalf("it did not end within a minute")
		return 0
	}
}

func (p *process) fatalf(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("%s; its words:\n%s", fmt.Sprintf(format, args...), p.log)
}

// log is what a process has said so far.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
