package app_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestTheFirstSignalDrainsAndTheSecondKills sends both to a program that never
// finishes draining.
func TestTheFirstSignalDrainsAndTheSecondKills(t *testing.T) {
	cmd := exec.Command(os.Args[0], "stubborn")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for _, want := range []string{"running", "draining"} {
		if !lines.Scan() || lines.Text() != want {
			t.Errorf("the program says %q, want %q", lines.Text(), want)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}
	ended := make(chan error)
	go func() { ended <- cmd.Wait() }()
	for err = nil; err == nil; {
		select {
		case err = <-ended:
		case <-time.After(20 * time.Millisecond):
			// The signal before may have come a moment too early.
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !exit.Sys().(syscall.WaitStatus).Signaled() {
		t.Errorf("the program ended with %v, want killed by the second signal", err)
	}
}
