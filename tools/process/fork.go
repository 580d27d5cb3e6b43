package process

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// forker starts the children of this process, all on one OS thread. Linux sends Pdeathsig when the *thread* that forked ends, not the
// process: a child of any other thread could be killed whenever Go's scheduler lets that thread go. A thread for each child would
// use up the processes that the user may have (RLIMIT_NPROC counts threads), and Go ends a program that cannot have one more.
//
// The thread belongs to a goroutine that ends with the last child. A program whose file cannot be read (a network file system that is
// gone) holds it up, and Go's own lock for forks: after patience its start is given up, and so are those that wait for it.
type forker struct {
	patience time.Duration
	turn     chan struct{} // holds an element while a program is being started; capacity 1

	mu      sync.Mutex
	own     map[int]bool  // the ids of the children that have been started and not been waited for
	current string        // the program that is being started, or was last
	starts  chan func()   // to the goroutine; nil if there is none
	started chan struct{} // from the goroutine, after each start
}

// startPatience is how long a program may take to start, and wait for its turn: longer than any disk that works.
const startPatience = 30 * time.Second

var forks = newForker(startPatience)

func newForker(patience time.Duration) *forker {
	return &forker{patience: patience, turn: make(chan struct{}, 1), own: map[int]bool{}}
}

var errTooManyProcesses = errors.New("no more processes may be started: wait until others have ended, or raise the limit (ulimit -u, or the pids limit of the container)")

// Fork starts a program, which must be waited for with Wait. It has none of the files that this program's host left open.
func Fork(program string, argv []string, attr *os.ProcAttr) (child *os.Process, err error) {
	return forks.start(program, argv, attr)
}

// Wait waits for the end of what Fork started.
func Wait(child *os.Process) (*os.ProcessState, error) { return forks.wait(child) }

func (f *forker) start(program string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	SealInherited()
	ReserveThreads()
	deadline := time.NewTimer(f.patience)
	defer deadline.Stop()
	select {
	case f.turn <- struct{}{}:
	case <-deadline.C:
		f.mu.Lock()
		defer f.mu.Unlock()
		return nil, fmt.Errorf("it waits for %s, which has not started in %v: make its file system answer, or unmount it", f.current, f.patience)
	}
	var child *os.Process
	var err error
	started := f.launch(program, func() { child, err = os.StartProcess(program, argv, attr) })
	select {
	case <-started:
		f.launched(child, err)
		if errors.Is(err, syscall.EAGAIN) {
			err = errTooManyProcesses
		}
		return child, err
	case <-deadline.C:
		go func() {
			<-started
			f.launched(child, err)
			if err == nil { // after all: nobody wants it any more
				_ = child.Kill()
				_, _ = f.wait(child)
			}
		}()
		return nil, fmt.Errorf("it has not started in %v: make the file system that it stands on answer, or unmount it", f.patience)
	}
}

// launch lets the goroutine start a program, whose turn it is. What it returns receives when that is done.
func (f *forker) launch(program string, start func()) (started <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.starts == nil {
		f.starts, f.started = make(chan func(), 1), make(chan struct{})
		go func(starts <-chan func(), started chan<- struct{}) {
			runtime.LockOSThread()
			for start := range starts {
				start()
				started <- struct{}{}
			}
		}(f.starts, f.started)
	}
	f.current = program
	f.starts <- start // never blocks: one has its turn
	return f.started
}

// launched ends a turn.
func (f *forker) launched(child *os.Process, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.own[child.Pid] = true
	}
	<-f.turn
	f.rest()
}

// wait waits for the end of a child.
func (f *forker) wait(child *os.Process) (*os.ProcessState, error) {
	pid := child.Pid
	state, err := await(child)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.own, pid)
	f.rest()
	return state, err
}

// rest ends the goroutine if there is no child, and none is being started. f.mu is held.
func (f *forker) rest() {
	if len(f.own) == 0 && len(f.turn) == 0 && f.starts != nil {
		close(f.starts)
		f.starts = nil
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
