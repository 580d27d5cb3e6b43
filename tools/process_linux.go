package tools

import "syscall"

// sysProcAttr puts the child in a group of its own, with KILL for it when runnel dies (see process.wait).
// With a terminal the group is a session, whose controlling terminal is the child's stdout.
func sysProcAttr(terminal bool) *syscall.SysProcAttr {
	if terminal {
		return &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1, Pdeathsig: syscall.SIGKILL}
	}
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
