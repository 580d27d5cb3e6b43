//go:build unix

package process

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"runnel/internal/processtest"
)

// A guard that somebody kills is replaced while commands run: the next one may be long in coming, and runnel
// may be killed before.
func TestGuardIsReplaced(t *testing.T) {
	line := processtest.NewLifeline(t)
	stop := holds(t, line)
	old := killGuard(t, guards)
	for deadline := time.Now().Add(watchdog); guardID(guards) == old ||
		guardID(guards) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the guard was not replaced")
		}
	}
	stop()
	line.Gone()
}

// killGuard kills a guard, and returns its id when it has ended.
func killGuard(t *testing.T, g *guard) (pid int) {
	t.Helper()
	g.mu.Lock()
	pid, ended := g.process.Pid, g.ended
	if err := g.process.Kill(); err != nil {
		t.Error(err)
	}
	g.mu.Unlock()
	<-ended
	return pid
}

func guardID(g *guard) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.process == nil {
		return 0
	}
	return g.process.Pid
}

// desert leaves a guard as if runnel had ended, and returns when it has done its work.
func desert(g *guard) {
	g.mu.Lock()
	clear(g.held) // it is not replaced
	_ = g.pipe.Close()
	ended := g.ended
	g.mu.Unlock()
	<-ended
}

func TestGuardKillsItsGroups(t *testing.T) {
	line := processtest.NewLifeline(t)
	victim := exec.Command("/bin/sh", "-c", hold)
	victim.Env = append(os.Environ(), "LINE="+line.Path)
	victim.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}

	g := newGuard()
	if err := g.hold(strconv.Itoa(victim.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	_ = g.hold("1") // a guard never kills more than a group
	desert(g)
	line.Gone()
	_ = victim.Wait()
}

// A process with the mark of a runnel that is gone is killed, whatever the guard was told about it, and no
// other process is. A folder is removed, unless that was retracted.
func TestGuardKillsWhatIsMarked(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells whose a process is")
	}
	g := newGuard()
	line, other := processtest.NewLifeline(t), processtest.NewLifeline(t)
	holder(t, g.newMark(), line)
	holder(t, g.newMark(), line)
	holder(t, newGuard().newMark(), other)

	dir := t.TempDir()
	for _, name := range []string{"left", "retracted"} {
		folder := filepath.Join(dir, name)
		if err := errors.Join(os.Mkdir(folder, 0o700), g.hold(folder)); err != nil {
			t.Fatal(err)
		}
	}
	g.release(filepath.Join(dir, "retracted"))
	// A new guard is told what the last one knew.
	killGuard(t, g)
	if err := g.hold(strconv.Itoa(1<<22 + 1)); err != nil { // the id of no process
		t.Fatal(err)
	}
	desert(g)
	line.Gone()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "retracted" {
		t.Errorf("left are %v, %v", left, err)
	}
	other.IsHeld()
}

// holder starts a group of processes that have a mark in their environment, and hold a line. It returns its
// id.
func holder(t *testing.T, mark string, line *processtest.Lifeline) (pgid int) {
	t.Helper()
	c := exec.Command("/bin/sh", "-c", `(`+hold+`) & wait`)
	c.Env = append(os.Environ(), "LINE="+line.Path, mark)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		SignalGroup(c.Process.Pid, syscall.SIGKILL)
		_ = c.Wait()
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return c.Process.Pid
}
