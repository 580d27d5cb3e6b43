//go:build unix

package rpc

import (
	"os"
	"syscall"
)

// newGroup makes a child the leader of a process group and of a session without a terminal. In the host's
// terminal, the system would stop a server that asks for a password there.
func newGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// wake continues a server that was stopped, with its group: it sees neither the end of its input nor TERM
// otherwise.
func wake(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGCONT) }

// terminate asks a server and its whole group to exit. It fails if they already have.
func terminate(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }

// kill kills them.
func kill(p *os.Process) { killRest(p.Pid) }

// killRest kills what is left of a group.
func killRest(pgid int) { _ = syscall.Kill(-pgid, syscall.SIGKILL) }
