package process

import (
	"bytes"
	"errors"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// getTermios reads the settings of a terminal.
const getTermios = unix.TCGETS

// killWithThread has the kernel kill the child when the forking thread ends, which it does with runnel (see
// forker).
func killWithThread(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// await waits for a child. Unlike [os.Process.Wait], it needs no thread, since the poller watches a
// descriptor of the child. That one is opened for this: the child's own must block, or waitid(2) may return
// too early. On kernels without such descriptors (before 5.3) a thread waits.
func await(child *os.Process) (*os.ProcessState, error) {
	var pidfd *os.File
	if fd, err := unix.PidfdOpen(child.Pid, 0); err == nil {
		_ = unix.SetNonblock(fd, true) // else it is not polled
		pidfd = os.NewFile(uintptr(fd), "pidfd")
	}
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

// SealInherited keeps children from inheriting files that runnel's host left open, such as the pipes of its
// other servers. Files that Go opens are close-on-exec anyway.
var SealInherited = sync.OnceFunc(func() {
	// Fails before Linux 5.11: then they stay open.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
})

// processes returns the ids of all processes.
func processes() (pids []int) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// marked returns the groups, except one, of the processes whose mark has a prefix.
func marked(prefix string, except int) (groups []int) {
	for _, pid := range processes() {
		if !hasMark(pid, markVariable+"="+prefix+".") {
			continue
		}
		if pgid, err := syscall.Getpgid(pid); err == nil && pgid > 1 && pgid != except {
			groups = append(groups, pgid)
		}
	}
	return groups
}

// hasMark reports whether a variable of a process begins with a mark. The system shows only the environments
// of the same user's processes, and none after their end.
func hasMark(pid int, mark string) bool {
	environment, _ := readProc(strconv.Itoa(pid) + "/environ")
	return bytes.HasPrefix(environment, []byte(mark)) || bytes.Contains(environment, []byte("\x00"+mark))
}

// readProc reads a file below /proc. Each end of a command reads some of them: [os.ReadFile] takes eleven
// system calls for one, most of them to find that it cannot be polled, and this four.
func readProc(name string) (text []byte, err error) {
	fd, err := unix.Open("/proc/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }() // it has only been read
	for buffer := make([]byte, 4<<10); ; {
		n, err := unix.Read(fd, buffer)
		if n <= 0 && !errors.Is(err, unix.EINTR) {
			return text, err
		}
		text = append(text, buffer[:max(n, 0)]...)
	}
}

// stat is an excerpt of a process's /proc/PID/stat.
type stat struct {
	state        byte
	parent, pgid int
	start        string // when it began: no other process with its id has the same
}

func (s *stat) ended() bool { return s.state == 'Z' || s.state == 'X' }

func readStat(pid int) (stat, bool) {
	text, err := readProc(strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, false
	}
	// proc(5): pid (comm) state ppid pgrp ... starttime; comm may hold anything, parentheses too.
	f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(f) < 20 {
		return stat{}, false
	}
	parent, _ := strconv.Atoi(string(f[1]))
	pgid, _ := strconv.Atoi(string(f[2]))
	return stat{state: f[0][0], parent: parent, pgid: pgid, start: string(f[19])}, true
}

// processesSince returns the processes that are younger than the one with an id, and perhaps a few more. The
// system counts ids up.
func processesSince(pid int) map[int]stat {
	var last int
	// proc(5): the last field is the id that was given last.
	if load, err := readProc("loadavg"); err == nil {
		last, _ = strconv.Atoi(string(bytes.TrimSpace(load[bytes.LastIndexByte(load, ' ')+1:])))
	}
	var ids []int
	if n := last - pid; n >= 0 && n < 100 { // nearly always
		for id := pid + 1; id <= last; id++ {
			ids = append(ids, id)
		}
	} else {
		// Below 0 the count has begun anew.
		ids = slices.DeleteFunc(processes(), func(id int) bool { return id <= pid && n >= 0 })
	}
	all := map[int]stat{}
	for _, id := range ids {
		if s, ok := readStat(id); ok && !s.ended() {
			all[id] = s
		}
	}
	return all
}

// strays finds the processes of a family that have left its group, with the times when they began. They have
// its mark or descend from its leader, or did so when they were seen before. Supervisors, and what they
// start, are not part of the family: their tasks must outlive it.
func strays(leader int, mark string, before map[int]string) map[int]string {
	all := processesSince(leader)
	descends := func(pid int) bool {
		var line []int // looked at last: most processes descend from others, and each look is a file to read
		for range len(all) {
			s, ok := all[pid]
			if !ok {
				return false
			}
			line = append(line, pid)
			if s.parent == leader || before[s.parent] != "" {
				return !slices.ContainsFunc(line, isSupervisor)
			}
			pid = s.parent
		}
		return false
	}
	seen := map[int]string{}
	for pid, s := range all {
		if s.pgid == leader || guards.holds(strconv.Itoa(s.pgid)) { // nothing can join another child's session
			continue
		}
		if before[pid] == s.start || mark != "" && hasMark(pid, mark+"\x00") || descends(pid) {
			seen[pid] = s.start
		}
	}
	return seen
}

func isSupervisor(pid int) bool {
	line, _ := readProc(strconv.Itoa(pid) + "/cmdline")
	return bytes.HasPrefix(line, []byte(SupervisorName+"\x00"))
}

// onlyZombies reports whether the processes of a group have all ended and wait for a parent that does not
// collect them: many containers have an init that never does, and kill(2) counts such processes as there.
func onlyZombies(pgid int) bool {
	pids := processes()
	for _, pid := range pids {
		if s, ok := readStat(pid); ok && s.pgid == pgid && !s.ended() {
			return false
		}
	}
	return len(pids) > 0
}
