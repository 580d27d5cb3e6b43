//go:build unix

package rpc

import (
	"os"
	"syscall"
)

// newGroup makes a child the leader of a process group.
func newGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// terminate asks a server and its whole group to exit. It fails if they already have.
func terminate(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }

// kill kills them.
func kill(p *os.Process) { killRest(p.Pid) }

// killRest kills what is left of a group.
func killRest(pgid int) { _ = syscall.Kill(-pgid, syscall.SIGKILL) }
