package process

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// forker starts programs one after the other, since Go has one lock for forks. A program whose file cannot be read (a network file system
// that is gone) holds that: after patience its start is given up, and so are those that wait for it.
type forker struct {
	patience time.Duration
	turn     chan struct{} // holds an element while a program is being started
	current  atomic.Value  // that program, or the last one
}

// startPatience is how long a program may take to start, and wait for its turn: longer than any disk that works.
const startPatience = 30 * time.Second

var forks = newForker(startPatience)

func newForker(patience time.Duration) *forker {
	return &forker{patience: patience, turn: make(chan struct{}, 1)}
}

var errTooManyProcesses = errors.New("no more processes may be started: wait until others have ended, or raise the limit (ulimit -u, or the pids limit of the container)")

// Fork starts a program that may outlive this one. It has none of the files that this program's host left open.
func Fork(cmd *exec.Cmd) error {
	err := forks.start(cmd)
	if err == nil {
		go func() { _, _ = await(cmd.Process) }() // ends with it or with this program
	}
	return err
}

func (f *forker) start(cmd *exec.Cmd) error {
	SealInherited()
	ReserveThreads()
	deadline := time.After(f.patience)
	select {
	case f.turn <- struct{}{}:
	case <-deadline:
		return fmt.Errorf("it waits for %s, which has not started in %v: make its file system answer, or unmount it", f.current.Load(), f.patience)
	}
	f.current.Store(cmd.Path)
	started := make(chan error, 1)
	go func() {
		err := cmd.Start()
		<-f.turn
		started <- err
	}()
	select {
	case err := <-started:
		if errors.Is(err, syscall.EAGAIN) {
			return errTooManyProcesses
		}
		return err
	case <-deadline:
		go func() {
			if <-started == nil { // nobody wants it any more
				_ = cmd.Process.Kill()
				_, _ = await(cmd.Process)
			}
		}()
		return fmt.Errorf("it has not started in %v: make the file system that it stands on answer, or unmount it", f.patience)
	}
}

// spareThreads is how many threads Go may need when no more can be had: one for each system call that waits (a slow disk, a fork)
// while others go on.
const spareThreads = 16

// ReserveThreads makes the runtime start threads while there is room for them, and returns when it has them. It keeps them. The first
// child does so too; a server that has none yet needs them as well.
var ReserveThreads = sync.OnceFunc(func() {
	var all, locked sync.WaitGroup
	locked.Add(spareThreads)
	for range spareThreads {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			locked.Done()
			locked.Wait()
		})
	}
	all.Wait()
})
