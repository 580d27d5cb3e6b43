//go:build unix

package rpc

import (
	"os"
	"syscall"
)

// newGroup makes a child the leader of a process group.
func newGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// terminate asks a server and all in its group to end. It fails when they have ended.
func terminate(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }

// kill ends them.
func kill(p *os.Process) { killRest(p.Pid) }

// killRest ends what is left of a group.
func killRest(pgid int) { _ = syscall.Kill(-pgid, syscall.SIGKILL) }
