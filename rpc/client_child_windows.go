package rpc

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// newGroup keeps a Ctrl-C from a child, and lets terminate reach it. Where this program has no console, its servers have none that could be seen, either.
func newGroup() *syscall.SysProcAttr {
	flags := uint32(windows.CREATE_NEW_PROCESS_GROUP)
	if _, err := windows.GetConsoleCP(); err != nil {
		flags |= windows.CREATE_NO_WINDOW
	}
	return &syscall.SysProcAttr{CreationFlags: flags}
}

// terminate asks a server and all in its group to end. It fails when they have ended, and where there is no console by which to ask.
func terminate(p *os.Process) {
	_ = windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(p.Pid))
}

// kill ends the server.
func kill(p *os.Process) { _ = p.Kill() }

// killRest does nothing: what is left of a group without its leader is found by its job alone, which DialOptions.EndGroup may know.
func killRest(int) {}
