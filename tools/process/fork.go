package process

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"syscall"
)

// forker starts the children of this process, all on one OS thread. Linux sends Pdeathsig when the *thread* that forked ends, not the
// process: a child of any other thread could be killed whenever Go's scheduler lets that thread go. A thread for each child would
// use up the processes that the user may have (RLIMIT_NPROC counts threads), and Go ends a program that cannot have one more.
//
// The thread belongs to a goroutine that ends with the last child.
type forker struct {
	mu      sync.Mutex
	own     map[int]bool  // the ids of the children that have been started and not been waited for
	starts  chan func()   // to the goroutine; nil if there is none
	started chan struct{} // from the goroutine, after each start
}

var forks = forker{own: map[int]bool{}}

var errTooManyProcesses = errors.New("no more processes may be started: wait until others have ended, or raise the limit (ulimit -u, or the pids limit of the container)")

// Fork starts a program, which must be waited for with Wait. It has none of the files that this program's host left open.
func Fork(program string, argv []string, attr *os.ProcAttr) (child *os.Process, err error) {
	return forks.start(program, argv, attr)
}

// Wait waits for the end of what Fork started.
func Wait(child *os.Process) (*os.ProcessState, error) { return forks.wait(child) }

func (f *forker) start(program string, argv []string, attr *os.ProcAttr) (child *os.Process, err error) {
	SealInherited()
	reserveThreads()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.starts == nil {
		f.starts, f.started = make(chan func()), make(chan struct{})
		go func(starts <-chan func(), started chan<- struct{}) {
			runtime.LockOSThread()
			for start := range starts {
				start()
				started <- struct{}{}
			}
		}(f.starts, f.started)
	}
	f.starts <- func() { child, err = os.StartProcess(program, argv, attr) }
	<-f.started
	if errors.Is(err, syscall.EAGAIN) {
		err = errTooManyProcesses
	}
	if err == nil {
		f.own[child.Pid] = true
	}
	f.rest()
	return child, err
}

func (f *forker) wait(child *os.Process) (*os.ProcessState, error) {
	pid := child.Pid
	state, err := await(child)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.own, pid)
	f.rest()
	return state, err
}

// rest ends the goroutine if there is no child.
func (f *forker) rest() {
	if len(f.own) == 0 && f.starts != nil {
		close(f.starts)
		f.starts = nil
	}
}

// spareThreads is how many threads Go may need when no more can be had: one for each system call that waits (a slow disk, a fork)
// while others go on.
const spareThreads = 16

// reserveThreads makes the runtime start threads while there is room for them. It keeps them.
var reserveThreads = sync.OnceFunc(func() {
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
