package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// forker starts the children of this process, all on one OS thread. Linux sends Pdeathsig when the *thread*
// that forked ends, not the process: a child of any other thread could be killed whenever Go's scheduler lets
// that thread go. A thread for each child would
// use up the processes that the user may have (RLIMIT_NPROC counts threads), and Go ends a program that
// cannot have one more.
//
// The thread belongs to a goroutine that ends with the last child. A program whose file cannot be read (from
// a network file system that is gone) blocks it, and Go's own lock for forks. After patience that start is
// given up, and so are those that wait for it.
type forker struct {
	patience time.Duration
	current  atomic.Value // the program that is being started, or was started last

	mu       sync.Mutex
	children int               // children that will be started, or were not waited for yet
	starts   chan func() error // to the goroutine; nil without children
	started  chan error        // from the goroutine, after each start
}

// startPatience is how long a program may take to start, and to wait for its turn: longer than any working
// disk needs.
const startPatience = 30 * time.Second

var forks = &forker{patience: startPatience}

var errTooManyProcesses = errors.New("no more processes may be started: wait until others have ended, or " +
	"raise the limit (ulimit -u, or the pids limit of the container)")

// Fork starts a program that may outlive this one. The program inherits none of the files that this one's
// host left open.
func Fork(cmd *exec.Cmd) error {
	err := forks.start(cmd)
	if err == nil {
		go func() { _, _ = forks.wait(cmd.Process) }() // ends with it or with this program
	}
	return err
}

func (f *forker) start(cmd *exec.Cmd) error {
	// Go keeps the processor of a thread that forks: with only one, a start that hangs would stop everything.
	if runtime.GOMAXPROCS(0) == 1 {
		runtime.GOMAXPROCS(2)
	}
	SealInherited()
	TieChildren()
	ReserveThreads()
	deadline := time.After(f.patience)
	starts, started := f.enter()
	select {
	case starts <- func() error {
		f.current.Store(cmd.Path)
		return begin(cmd)
	}:
	case <-deadline:
		f.leave()
		return fmt.Errorf("it waits for %s, which has not started in %v: make its file system answer, or "+
			"unmount it", f.current.Load(), f.patience)
	}
	select {
	case err := <-started:
		if err != nil {
			f.leave()
		}
		if errors.Is(err, syscall.EAGAIN) {
			return errTooManyProcesses
		}
		return err
	case <-deadline:
		go func() {
			if <-started != nil {
				f.leave()
				return
			}
			_ = cmd.Process.Kill() // nobody wants it any more
			_, _ = f.wait(cmd.Process)
		}()
		return fmt.Errorf("it has not started in %v: make the file system that it stands on answer, or "+
			"unmount it", f.patience)
	}
}

// enter counts a child that will be started, and returns the channels to and from the goroutine.
func (f *forker) enter() (chan<- func() error, <-chan error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.children++; f.children == 1 {
		f.starts, f.started = make(chan func() error), make(chan error)
		go func(starts <-chan func() error, started chan<- error) {
			runtime.LockOSThread()
			for start := range starts {
				started <- start()
			}
		}(f.starts, f.started)
	}
	return f.starts, f.started
}

// leave undoes enter, and ends the goroutine after the last child.
func (f *forker) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.children--; f.children == 0 {
		close(f.starts)
		f.starts = nil
	}
}

// wait waits for the end of a child.
func (f *forker) wait(child *os.Process) (*os.ProcessState, error) {
	defer f.leave()
	return await(child)
}

// spareThreads is how many threads Go may need when the system gives it no more: one for each system call
// that waits (a slow disk, a fork) while others go on. Each takes some 40 KiB of memory. With 8, a server
// that could have no more was ended by 150 calls at once in 8 of 10 tries, with 16 in 1 of 6.
const spareThreads = 16

// ReserveThreads has the runtime start threads while it still can, and returns when they run. The runtime
// keeps them. The first child calls it, too, but a server needs the threads even before that.
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
