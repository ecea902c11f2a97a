package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

func TestExitCodeIsTheCommands(t *testing.T) {
	for script, want := range map[string]int{
		"exit 0":        0,
		"exit 7":        7,
		"kill -TERM $$": exitSignalled + int(syscall.SIGTERM),
	} {
		if got := runCommand(quiet, nil, nil, []string{"sh", "-c", script}); got != want {
			t.Errorf("%s: got %d, want %d", script, got, want)
		}
	}
}

func TestCommandThatCannotRun(t *testing.T) {
	if got := runCommand(quiet, nil, nil, []string{"/none"}); got != exitNotRun {
		t.Errorf("got %d", got)
	}
}

func TestCommandSeesTheEnvironment(t *testing.T) {
	if got := runCommand(quiet, nil, []string{"LOCKSTEP_X=up"}, []string{"sh", "-c", `test "$LOCKSTEP_X" = up && test -n "$PATH"`}); got != 0 {
		t.Errorf("got %d", got)
	}
}

func TestSignalsReachTheWholeCommand(t *testing.T) {
	up := filepath.Join(t.TempDir(), "up")
	signals := make(chan os.Signal, 1)
	go func() {
		for !exists(up) {
			time.Sleep(10 * time.Millisecond)
		}
		signals <- syscall.SIGTERM
	}()
	// The outer shell waits for the inner one, which alone handles the signal.
	script := `trap : TERM; sh -c 'trap "exit 9" TERM; touch "$1"; while :; do sleep 0.05; done' sh "$1" & while :; do wait $!; c=$?; test $c = 9 && exit 9; done`
	if got := runCommand(quiet, signals, nil, []string{"sh", "-c", script, "sh", up}); got != 9 {
		t.Errorf("got %d, want the inner shell's 9", got)
	}
}

func TestWhatTheCommandLeavesIsKilled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	if got := runCommand(quiet, nil, nil, []string{"sh", "-c", `sleep 60 & echo $! > "$1"`, "sh", file}); got != 0 {
		t.Fatalf("got %d", got)
	}
	pid, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); running(string(pid)); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > 5*time.Second {
			t.Fatal("what the command left still runs")
		}
	}
}

// running counts a process that nobody has waited for as ended.
func running(pid string) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(pid), "stat"))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
