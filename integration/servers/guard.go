package servers

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
)

// guard is a waiting shell that runs a command if this process ends before it
// has released the guard, even if it is killed outright: the shell sees the
// pipe from this process close.
type guard struct {
	cmd     *exec.Cmd
	pipe    io.WriteCloser
	release func() error // safe to call again
}

// newGuard arms a guard that would run the command.
func newGuard(command ...string) (*guard, error) {
	g := &guard{cmd: exec.Command("sh", append([]string{"-c", `read -r _ || exec "$@"`, "sh"}, command...)...)}
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // out of reach of the terminal's interrupt
	g.release = sync.OnceValue(g.dismiss)
	pipe, err := g.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	g.pipe = pipe
	if err := g.cmd.Start(); err != nil {
		return nil, fmt.Errorf("servers: no shell to clean up after a crash: %w", err)
	}
	return g, nil
}

// dismiss ends the shell without its command.
func (g *guard) dismiss() error {
	_, err := io.WriteString(g.pipe, "released\n")
	return errors.Join(err, g.pipe.Close(), g.cmd.Wait())
}
