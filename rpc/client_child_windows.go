package rpc

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// newGroup keeps a Ctrl-C away from a child, and lets terminate reach it. If this program has no console, its
// servers get no visible one either.
func newGroup() *syscall.SysProcAttr {
	flags := uint32(windows.CREATE_NEW_PROCESS_GROUP)
	if _, err := windows.GetConsoleCP(); err != nil {
		flags |= windows.CREATE_NO_WINDOW
	}
	return &syscall.SysProcAttr{CreationFlags: flags}
}

// wake does nothing: nothing stops a process here.
func wake(*os.Process) {}

// terminate asks a server and its whole group to exit. It fails if they already have, and without a console,
// through which it asks.
func terminate(p *os.Process) {
	_ = windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(p.Pid))
}

// kill kills the server.
func kill(p *os.Process) { _ = p.Kill() }

// killRest does nothing: without its leader, only a job object knows what is left of a group, and
// DialOptions.EndGroup may have one.
func killRest(int) {}
