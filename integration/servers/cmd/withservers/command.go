package main

import (
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/lockstep-stream/lockstep/integration/servers/internal/child"
)

// commandGrace is how long the command may take to end after a signal.
const commandGrace = 30 * time.Second

// runCommand runs the command with env added to ours and returns its exit code.
// When it returns, nothing that the command started in its process group runs.
func runCommand(log *slog.Logger, signals <-chan os.Signal, env, command []string) int {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	done, err := child.Start(cmd)
	if err != nil {
		log.Error("cannot run the command", "error", err)
		return exitNotRun
	}
	passOn(log, signals, cmd, done)
	signalGroup(log, cmd, syscall.SIGKILL)
	return exitCode(cmd.ProcessState)
}

// passOn gives the command's group every signal until the command has ended.
func passOn(log *slog.Logger, signals <-chan os.Signal, cmd *exec.Cmd, done <-chan struct{}) {
	var overdue <-chan time.Time
	for {
		select {
		case <-done:
			return
		case s := <-signals:
			log.Info("passing on", "signal", s)
			signalGroup(log, cmd, s.(syscall.Signal))
			overdue = time.After(commandGrace)
		case <-overdue:
			log.Warn("killing the command", "after", commandGrace)
			signalGroup(log, cmd, syscall.SIGKILL)
		}
	}
}

func signalGroup(log *slog.Logger, cmd *exec.Cmd, s syscall.Signal) {
	if err := child.SignalGroup(cmd, s); err != nil {
		log.Warn("cannot signal the command", "signal", s, "error", err)
	}
}

// exitCode is the shell's way to tell how a process ended.
func exitCode(ended *os.ProcessState) int {
	if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignalled + int(status.Signal())
	}
	return ended.ExitCode()
}
