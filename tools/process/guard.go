package process

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// The guard is a second process of the same program. It knows the process groups of the running commands, and
// kills them when runnel is gone for any reason. The kernel then kills only direct children (Pdeathsig), and
// only on Linux. The guard also removes the folders that were made for the commands. It lives only as long as
// commands run. On Windows the system kills them (family_windows.go), and the guard removes the folders.
//
// A group is known only after its command was started, and by then the command may have started others, some
// of them outside the group. So everything that runnel starts has a mark in its environment, which it hands
// on. On Linux, which shows environments, the guard looks for processes with the mark.

// Runnel sends it one line for each group, by its id, and for each folder, by its quoted path.
//
//	+thing  a group has been started, or a folder is about to be made
//	-thing  it is gone
//
// The end of the pipe means that runnel has ended.

// guardName is the argv[0] that makes the program a guard.
const guardName = "runnel-guard"

// guardLinger is how long the guard stays after the last command, so that the next command need not start
// another.
const guardLinger = time.Second

// guardWrite is how long the guard may take to read a line before it counts as lost.
const guardWrite = time.Second

// This is in init, since every binary that can start a command must be able to be its guard. A test binary
// that forgot such a call would run its tests again, which would start a guard, and so on.
func init() {
	if os.Args[0] == guardName {
		runnel, _ := strconv.Atoi(os.Args[1])
		keepGuard(os.Stdin, os.Args[2], runnel)
		os.Exit(0)
	}
}

// guardLook is how long the guard looks for processes with the mark. The first look may be too early: a child
// that has not executed its program yet still shows runnel's environment, and may learn of runnel's end after
// the guard.
const guardLook = 500 * time.Millisecond

// keepGuard runs the guard: it reads runnel's lines until the pipe ends, and then kills. It spares processes
// with the mark in runnel's own group, since the host may be in that group.
func keepGuard(in *os.File, mark string, runnel int) {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	held := map[string]bool{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var sign rune
		var thing string
		if _, err := fmt.Sscanf(lines.Text(), "%c%q", &sign, &thing); err != nil {
			continue
		}
		if delete(held, thing); sign == '+' {
			held[thing] = true
		}
	}
	for thing := range held {
		if pgid, _ := strconv.Atoi(thing); pgid > 1 {
			SignalGroup(pgid, syscall.SIGKILL)
		}
	}
	if len(held) > 0 {
		began := time.Now()
		for {
			left := marked(mark, runnel)
			for _, pgid := range left { // a group cannot outrun a signal, however fast it forks
				SignalGroup(pgid, syscall.SIGKILL)
			}
			if took := time.Since(began); took >= guardLook && (len(left) == 0 || took >= KillWait) {
				break
			}
			time.Sleep(groupPoll)
		}
	}
	for thing := range held {
		if filepath.IsAbs(thing) {
			_ = os.RemoveAll(thing)
		}
	}
}

var guards = newGuard()

// NewMark makes the variable that marks the next program to be started, with all that it starts, as one
// family of this program (see [EndFamily]).
func NewMark() string { return guards.newMark() }

// GuardFolder names a folder, by its absolute path, that must not outlive this program, until ReleaseFolder.
// The folder may be made later.
func GuardFolder(folder string) error { return guards.hold(folder) }

// ReleaseFolder undoes GuardFolder.
func ReleaseFolder(folder string) { guards.release(folder) }

func newGuard() *guard { return &guard{mark: rand.Text(), held: map[string]bool{}} }

// guard is runnel's side. It keeps everything that the guard knows, in case the guard must be replaced. mu is
// held while a line is written, because the order of the lines matters. The lines fit into the pipe, so a
// write only waits for a guard that was stopped, and then for guardWrite at most.
type guard struct {
	mark   string // the beginning of all marks
	marked atomic.Int64

	mu      sync.Mutex
	held    map[string]bool // groups and folders, as the guard gets them
	pipe    *os.File
	process *os.Process
	ended   chan struct{} // closed when process has been waited for
	linger  *time.Timer
}

// newMark makes the mark for the next program.
func (g *guard) newMark() string {
	return fmt.Sprintf("%s=%s.%d", markVariable, g.mark, g.marked.Add(1))
}

// hold names a group or a folder that must not outlive runnel, until release. Without a guard, the next one
// learns of it.
func (g *guard) hold(thing string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held[thing] = true
	return g.tell('+', thing)
}

func (g *guard) holds(thing string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held[thing]
}

// release undoes hold. A guard without anything to guard is dismissed after a while.
func (g *guard) release(thing string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.held, thing)
	_ = g.tell('-', thing)
	if len(g.held) > 0 {
		return
	}
	if g.linger == nil {
		g.linger = time.AfterFunc(guardLinger, g.dismiss)
	} else {
		g.linger.Reset(guardLinger)
	}
}

// dismiss ends a guard that has nothing left to guard.
func (g *guard) dismiss() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.held) == 0 {
		g.stop()
	}
}

// tell writes one line to the guard, which it starts if necessary. A guard that does not take the line
// (somebody killed it) is replaced.
func (g *guard) tell(sign byte, thing string) error {
	if g.pipe != nil && g.write(sign, thing) == nil {
		return nil
	}
	g.stop()
	if err := g.start(); err != nil {
		return fmt.Errorf("starting the guard: %w", err)
	}
	return nil
}

func (g *guard) write(sign byte, thing string) error {
	_ = g.pipe.SetWriteDeadline(time.Now().Add(guardWrite))
	_, err := fmt.Fprintf(g.pipe, "%c%q\n", sign, thing)
	return err
}

// stop kills a guard, which would otherwise take the end of the pipe for the end of runnel.
func (g *guard) stop() {
	if g.pipe == nil {
		return
	}
	_ = g.process.Kill()
	_ = g.pipe.Close()
	<-g.ended
	g.pipe, g.process = nil, nil
}

// guardPause is how long runnel waits before it replaces a guard that has ended, since the next may be killed
// as well.
const guardPause = 100 * time.Millisecond

// watch waits for the end of a guard, and replaces it as long as commands run.
func (g *guard) watch(process *os.Process, ended chan struct{}) {
	_, _ = forks.wait(process)
	close(ended)
	for {
		time.Sleep(guardPause)
		g.mu.Lock()
		if g.process == process {
			g.stop()
		}
		over := g.pipe != nil || len(g.held) == 0 || g.start() == nil
		g.mu.Unlock()
		if over {
			return
		}
	}
}

// start starts a guard and tells it everything. The guard has a session of its own, so that signals to
// runnel's group do not reach it, and none of runnel's files.
func (g *guard) start() error {
	program, err := ThisProgram()
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	guard := &exec.Cmd{
		Path: program,
		// Its parent may be gone before it can ask for its group.
		Args:        []string{guardName, strconv.Itoa(ownGroup()), g.mark},
		Dir:         "/",
		Env:         []string{"GOMAXPROCS=1"},
		Stdin:       r,
		SysProcAttr: Apart(),
	}
	if err := forks.start(guard); err != nil {
		_ = w.Close()
		return err
	}
	g.pipe = w
	g.process = guard.Process
	g.ended = make(chan struct{})
	go g.watch(g.process, g.ended)
	for thing := range g.held {
		if err := g.write('+', thing); err != nil {
			return err
		}
	}
	return nil
}
