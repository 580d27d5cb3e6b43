package tools

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// The guard is a second process of the same program. It knows the process groups of the running commands and
// kills them when runnel is gone, however it went: the kernel kills a direct child then (Pdeathsig, on Linux),
// but neither its children nor, on other systems, itself. The folders that were made for them go with them.
// It lives only as long as commands run.

// guardName is the argv[0] that makes the program a guard.
const guardName = "runnel-guard"

// guardLinger is how long the guard stays after the last command, so that one command after the other does not start one each.
const guardLinger = time.Second

// guardWrite is how long the guard may take to read a line before it counts as lost.
const guardWrite = time.Second

// init, and not a call in main: every binary that can start a command must be able to be its guard.
// A test binary that forgot such a call would run its tests again, which would start a guard, and so on.
func init() {
	if os.Args[0] == guardName {
		keepGuard(os.Stdin)
		os.Exit(0)
	}
}

// keepGuard reads lines of guard.write until the pipe closes, which is when runnel has ended.
func keepGuard(in *os.File) {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	groups := map[int]string{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var sign rune
		var pgid int
		var folder string
		if _, err := fmt.Sscanf(lines.Text(), "%c%d %q", &sign, &pgid, &folder); err != nil || pgid <= 1 {
			continue
		}
		if sign == '+' {
			groups[pgid] = folder
		} else {
			delete(groups, pgid)
		}
	}
	for pgid := range groups {
		signalGroup(pgid, syscall.SIGKILL)
	}
	for _, folder := range groups {
		if folder != "" {
			_ = os.RemoveAll(folder)
		}
	}
}

var guards = guard{groups: map[int]string{}}

// guard is runnel's side of it. mu is held while a line is written, because the order of the lines is what
// counts; they fit the pipe, so that this waits only for a guard that is stopped, and then for guardWrite.
type guard struct {
	mu      sync.Mutex
	users   int            // commands that run or are being started
	groups  map[int]string // and the folder that was made for each, if there is one
	pipe    *os.File
	process *os.Process
	linger  *time.Timer
}

// acquire makes sure that a guard runs. Each call is followed by one of release.
func (g *guard) acquire() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pipe == nil {
		if err := g.start(); err != nil {
			return fmt.Errorf("starting the guard: %w", err)
		}
	}
	g.users++
	return nil
}

// add names a group that must not outlive runnel, and a folder, or "".
func (g *guard) add(pgid int, folder string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groups[pgid] = folder
	g.tell('+', pgid)
}

// release takes back acquire, and add if pgid is not 0.
func (g *guard) release(pgid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if pgid != 0 {
		delete(g.groups, pgid)
		g.tell('-', pgid)
	}
	if g.users--; g.users > 0 {
		return
	}
	if g.linger == nil {
		g.linger = time.AfterFunc(guardLinger, g.dismiss)
	} else {
		g.linger.Reset(guardLinger)
	}
}

// dismiss ends a guard that has nothing to guard.
func (g *guard) dismiss() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.users == 0 {
		g.stop()
	}
}

// tell writes one line. A guard that cannot take it is lost (somebody killed it) and replaced.
func (g *guard) tell(sign byte, pgid int) {
	if g.pipe == nil {
		return
	}
	if g.write(sign, pgid) == nil {
		return
	}
	g.stop()
	_ = g.start()
}

func (g *guard) write(sign byte, pgid int) error {
	_ = g.pipe.SetWriteDeadline(time.Now().Add(guardWrite))
	_, err := fmt.Fprintf(g.pipe, "%c%d %q\n", sign, pgid, g.groups[pgid])
	return err
}

// stop kills a guard: it must not take the end of the pipe for the end of runnel.
func (g *guard) stop() {
	if g.pipe == nil {
		return
	}
	_ = g.process.Kill()
	_ = g.pipe.Close()
	_, _ = g.process.Wait()
	g.pipe, g.process = nil, nil
}

// thisProgram is the file of the running program.
func thisProgram() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil // still this program when its file has been replaced
	}
	return os.Executable()
}

// start starts a guard and tells it all groups. It has a session of its own, so that what a terminal
// or a host sends to runnel's group does not reach it, and none of runnel's files.
func (g *guard) start() error {
	program, err := thisProgram()
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	process, err := os.StartProcess(program, []string{guardName}, &os.ProcAttr{
		Dir:   "/",
		Env:   []string{"GOMAXPROCS=1"},
		Files: []*os.File{r, null, null},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_ = w.Close()
		return err
	}
	g.pipe, g.process = w, process
	for pgid := range g.groups {
		if err := g.write('+', pgid); err != nil {
			return err
		}
	}
	return nil
}
