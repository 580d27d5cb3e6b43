package tools

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// sysProcAttr puts the child in a group of its own, with KILL for it when runnel dies (see forker).
// With a terminal the group is a session, whose controlling terminal is the child's stdout.
func sysProcAttr(terminal bool) *syscall.SysProcAttr {
	if terminal {
		return &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1, Pdeathsig: syscall.SIGKILL}
	}
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// await waits for a child. It takes no thread meanwhile, as [os.Process.Wait] does: the poller watches the child's descriptor.
// Kernels without such (before 5.3) take one.
func await(child *os.Process) (*os.ProcessState, error) {
	var pidfd *os.File
	_ = child.WithHandle(func(handle uintptr) {
		if fd, err := unix.FcntlInt(handle, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			_ = unix.SetNonblock(fd, true) // else it is not polled
			pidfd = os.NewFile(uintptr(fd), "pidfd")
		}
	})
	if pidfd != nil {
		defer pidfd.Close()
		if raw, err := pidfd.SyscallConn(); err == nil {
			_ = raw.Read(func(fd uintptr) bool {
				ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
				n, err := unix.Poll(ready, 0)
				return n != 0 || err != nil && !errors.Is(err, unix.EINTR)
			})
		}
	}
	return child.Wait()
}

// sealInherited keeps from the children what runnel's host left open when it started runnel, such as the
// pipes of its other servers. What Go opens itself is close-on-exec.
var sealInherited = sync.OnceFunc(func() {
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) // fails before Linux 5.11: then they stay open
})

// processes are the ids of all processes.
func processes() []string {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	return slices.DeleteFunc(names, func(name string) bool { return name[0] < '0' || name[0] > '9' })
}

// killHolders kills the groups, but for one, of the processes that have one of the folders with true in their environment. A group
// cannot outrun a signal, however fast it forks.
func killHolders(folders map[string]bool, except int) {
	for _, name := range processes() {
		environment, _ := os.ReadFile("/proc/" + name + "/environ") // only of processes of the same user
		for variable := range bytes.SplitSeq(environment, []byte{0}) {
			path, ok := strings.CutPrefix(string(variable), variablesVariable+"=")
			if !ok || !folders[filepath.Dir(path)] {
				continue
			}
			pid, _ := strconv.Atoi(name)
			if pgid, err := syscall.Getpgid(pid); err == nil && pgid > 1 && pgid != except {
				signalGroup(pgid, syscall.SIGKILL)
			}
		}
	}
}

// onlyZombies reports whether the processes of a group have all ended and wait for a parent that does not
// collect them: many containers have an init that never does, and kill(2) counts such processes as there.
func onlyZombies(pgid int) bool {
	names := processes()
	for _, name := range names {
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		// proc(5): pid (comm) state ppid pgrp; comm may hold anything, parentheses too.
		f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(f) > 2 && string(f[2]) == strconv.Itoa(pgid) && f[0][0] != 'Z' && f[0][0] != 'X' {
			return false
		}
	}
	return len(names) > 0
}

// widenPipe lets a pipe hold so many bytes, if it holds less. What is no pipe stays as it is, and so does a pipe
// of a user who has too many large ones.
func widenPipe(f *os.File, bytes int) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		if n, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0); err == nil && n < bytes {
			_, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, bytes)
		}
	})
}
