//go:build unix && !linux

package child

import "syscall"

func attr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
