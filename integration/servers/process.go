package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/lockstep-stream/lockstep/integration/servers/internal/child"
)

// stopGrace is how long a server may take to end in order before it is killed.
const stopGrace = 30 * time.Second

// killGrace is how long one with a killWith may take.
const killGrace = 5 * time.Second

// process is a server that is a child process. It may be started again after it
// has ended.
type process struct {
	path string
	args []string
	dir  string // where it runs
	log  string // file that its output is appended to

	as       *syscall.Credential // whose process it is; nil: ours
	stopWith syscall.Signal      // 0: SIGTERM
	killWith syscall.Signal      // 0: SIGKILL, which follows in any case

	mu   sync.Mutex
	last *life // nil before the first start
}

// life is one life of a process.
type life struct {
	cmd  *exec.Cmd
	done <-chan struct{} // closed when it has ended
}

func (p *process) start(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last.running() {
		return nil
	}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close() // the child has its own
	cmd := exec.Command(p.path, p.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as}
	done, err := child.Start(cmd)
	if err != nil {
		return err
	}
	p.last = &life{cmd: cmd, done: done}
	return nil
}

// stop asks the process to end, and kills it after stopGrace or when ctx ends.
func (p *process) stop(ctx context.Context) error {
	l := p.current()
	if !l.running() {
		return nil
	}
	if err := child.Signal(l.cmd, cmp.Or(p.stopWith, syscall.SIGTERM)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("it did not end when asked and was killed: %w", ctx.Err()), p.kill(ctx))
	}
}

// kill ends the process at once and returns when it is gone.
func (p *process) kill(context.Context) error {
	l := p.current()
	if !l.running() {
		return nil
	}
	if p.killWith != 0 {
		return p.killBy(l)
	}
	return sigkill(l)
}

// killBy uses the process's own signal, and SIGKILL if it does not obey.
func (p *process) killBy(l *life) error {
	if err := child.Signal(l.cmd, p.killWith); err != nil {
		return err
	}
	select {
	case <-l.done:
		return nil
	case <-time.After(killGrace):
		return sigkill(l)
	}
}

func sigkill(l *life) error {
	if err := child.Signal(l.cmd, syscall.SIGKILL); err != nil {
		return err
	}
	<-l.done
	return nil
}

func (p *process) current() *life {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// exited is closed when the process that was started last has ended.
func (p *process) exited() <-chan struct{} { return p.current().done }

func (p *process) tail(context.Context) string { return tailFile(p.log) }

// running may be asked of nil.
func (l *life) running() bool {
	if l == nil {
		return false
	}
	select {
	case <-l.done:
		return false
	default:
		return true
	}
}
