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

// The guard is a second process of the same program. It knows the process groups of the running commands and
// kills them when runnel is gone, however it went: the kernel kills a direct child then (Pdeathsig, on Linux),
// but neither its children nor, on other systems, itself. The folders that were made for them go with them.
// It lives only as long as commands run. On Windows the system kills them (family_windows.go), and the guard removes the folders.
//
// A group is known only when its command has been started, and by then the command may have started others, some of them outside
// the group. All that runnel starts finds a mark in its environment, and hands it on: what has it is looked for then, on Linux, which
// shows environments.

// Runnel tells it a line each, with the thing quoted: a group by its id, a folder by its path.
//
//	+thing  a group has been started, or a folder is about to be made
//	-thing  it is gone
//
// The end of the pipe is that of runnel.

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
		runnel, _ := strconv.Atoi(os.Args[1])
		keepGuard(os.Stdin, os.Args[2], runnel)
		os.Exit(0)
	}
}

// guardLook is how long the guard looks for what has the mark. The first look may come too early: a child that has not executed its
// program shows runnel's environment, and hears of runnel's end after the guard does.
const guardLook = 500 * time.Millisecond

// keepGuard is the guard: it reads what runnel tells until the pipe ends, and kills then. What has the mark is left alone in runnel's
// own group, since its host may be in that.
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

// NewMark makes the variable that marks what is about to be started as this program's, and as one family: see [EndFamily].
func NewMark() string { return guards.newMark() }

// GuardFolder names a folder that must not outlive this program, by its absolute path, until ReleaseFolder. It may be made later.
func GuardFolder(folder string) error { return guards.hold(folder) }

// ReleaseFolder takes back GuardFolder, when the folder has been removed.
func ReleaseFolder(folder string) { guards.release(folder) }

func newGuard() *guard { return &guard{mark: rand.Text(), held: map[string]bool{}} }

// guard is runnel's side: all that the guard knows is kept here, too, for one that must be replaced. mu is held while a line is written,
// because the order of the lines is what counts; they fit the pipe, so that this waits only for a guard that is stopped, and then
// for guardWrite.
type guard struct {
	mark   string // the mark of all that is guarded begins with it
	marked atomic.Int64

	mu      sync.Mutex
	held    map[string]bool // groups and folders, as the guard is told of them
	pipe    *os.File
	process *os.Process
	ended   chan struct{} // closed when process has been waited for
	linger  *time.Timer
}

// newMark makes the mark of what is about to be started.
func (g *guard) newMark() string {
	return fmt.Sprintf("%s=%s.%d", MarkVariable, g.mark, g.marked.Add(1))
}

// hold names what must not outlive runnel, until release. Without a guard, a later one is told.
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

// release takes back hold. A guard that has nothing to guard then is dismissed in a while.
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

// dismiss ends a guard that has nothing to guard.
func (g *guard) dismiss() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.held) == 0 {
		g.stop()
	}
}

// tell writes one line, to a guard that is started if there is none. One that cannot take it is lost (somebody killed it) and replaced.
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

// stop kills a guard: it must not take the end of the pipe for the end of runnel.
func (g *guard) stop() {
	if g.pipe == nil {
		return
	}
	_ = g.process.Kill()
	_ = g.pipe.Close()
	<-g.ended
	g.pipe, g.process = nil, nil
}

// guardPause is how long runnel waits before it replaces a guard that has ended: who kills one may kill the next.
const guardPause = 100 * time.Millisecond

// watch waits for the end of a guard, and sees to it that there is another as long as commands run.
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

// start starts a guard and tells it everything. It has a session of its own, so that what a terminal
// or a host sends to runnel's group does not reach it, and none of runnel's files.
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
		Path:        program,
		Args:        []string{guardName, strconv.Itoa(ownGroup()), g.mark}, // its parent may be gone before it can ask for its group
		Dir:         "/",
		Env:         []string{"GOMAXPROCS=1"},
		Stdin:       r,
		SysProcAttr: Apart(),
	}
	if err := forks.start(guard); err != nil {
		_ = w.Close()
		return err
	}
	g.pipe, g.process, g.ended = w, guard.Process, make(chan struct{})
	go g.watch(g.process, g.ended)
	for thing := range g.held {
		if err := g.write('+', thing); err != nil {
			return err
		}
	}
	return nil
}
