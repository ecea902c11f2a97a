//go:build unix

// Package child runs processes that do not outlive this one.
package child

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Start starts cmd in a process group of its own, so that an interrupt from the
// terminal reaches it only if somebody passes it on. On Linux the kernel kills
// cmd if this process ends first; other systems cannot. Of cmd.SysProcAttr the
// credential is kept. The channel is closed
// when cmd has ended and cmd.ProcessState is set. The caller does not call
// cmd.Wait.
func Start(cmd *exec.Cmd) (<-chan struct{}, error) {
	a := attr()
	if cmd.SysProcAttr != nil {
		a.Credential = cmd.SysProcAttr.Credential
	}
	cmd.SysProcAttr = a
	started, done := make(chan error, 1), make(chan struct{})
	go run(cmd, started, done)
	if err := <-started; err != nil {
		return nil, err
	}
	return done, nil
}

// run keeps its thread while the child lives: the kernel takes the end of the
// thread that started a child for the end of the parent.
func run(cmd *exec.Cmd, started chan<- error, done chan<- struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = cmd.Wait() // cmd.ProcessState tells
	close(done)
}

// Signal sends s to the process that [Start] started. One that has ended by
// itself counts as one that obeyed.
func Signal(cmd *exec.Cmd, s os.Signal) error {
	if err := cmd.Process.Signal(s); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// SignalGroup sends s to the process that [Start] started and to all that it
// started in turn, as far as they stayed in its process group. It works also
// when only those are left.
func SignalGroup(cmd *exec.Cmd, s syscall.Signal) error {
	if err := syscall.Kill(-cmd.Process.Pid, s); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}
