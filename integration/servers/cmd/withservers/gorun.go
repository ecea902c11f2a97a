package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// watchGoRun makes up for "go run", which dies of SIGTERM without passing it
// on: when it is our parent and goes away, that counts as a SIGTERM. Any other
// parent may go, as with nohup. Where there is no /proc it does nothing.
func watchGoRun(signals chan<- os.Signal) {
	parent := os.Getppid()
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", parent))
	if err != nil || strings.TrimSpace(string(name)) != "go" {
		return
	}
	for os.Getppid() == parent {
		time.Sleep(200 * time.Millisecond)
	}
	signals <- syscall.SIGTERM
}
