//go:build unix

package child

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// asParent makes the test binary a program that starts a child and waits.
const asParent = "LOCKSTEP_CHILD_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(asParent) != "" {
		parent()
	}
	goleak.VerifyTestMain(m)
}

// parent starts a child from a goroutine that ends at once, as a caller's may,
// tells its id and waits to be killed.
func parent() {
	cmd := exec.Command("sleep", "60")
	started := make(chan error)
	go func() {
		_, err := Start(cmd)
		started <- err
	}()
	if err := <-started; err != nil {
		os.Exit(1)
	}
	for range 100 {
		go runtime.LockOSThread() // ends its thread with it
	}
	fmt.Println(cmd.Process.Pid)
	select {}
}

func TestChildDiesWithItsParentAndNotBefore(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Log("only Linux ends children with their parent")
		return
	}
	p := exec.Command(os.Args[0])
	p.Env = append(os.Environ(), asParent+"=1")
	pid := startParent(t, p)
	time.Sleep(200 * time.Millisecond)
	if !alive(pid) {
		t.Error("the child ended before its parent")
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait() // it was killed
	for begin := time.Now(); alive(pid); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > 5*time.Second {
			t.Fatal("the child outlives its parent")
		}
	}
}

// startParent returns the id of the child.
func startParent(t *testing.T, p *exec.Cmd) int {
	t.Helper()
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// alive counts a process that nobody has waited for as dead.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestSignalGroupReachesGrandchildren(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 60 & echo; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	done, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := SignalGroup(cmd, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-done
	for begin := time.Now(); syscall.Kill(-cmd.Process.Pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > 5*time.Second {
			t.Fatal("a grandchild was left")
		}
	}
}

func TestEndedChildObeys(t *testing.T) {
	cmd := exec.Command("true")
	done, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	<-done
	if err := Signal(cmd, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := SignalGroup(cmd, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

func TestStartTellsWhyNot(t *testing.T) {
	if _, err := Start(exec.Command("/none")); err == nil {
		t.Error("a program that is not there was started")
	}
}
