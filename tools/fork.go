package tools

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"syscall"
)

// forker is the one OS thread that starts children, and never ends. Linux sends Pdeathsig when the *thread* that forked ends, not
// the process: a child of any other thread could be killed whenever Go's scheduler lets that thread go. A thread for each child
// would use up the processes that the user may have (RLIMIT_NPROC counts threads), and Go ends a program that cannot have one more.
var forker = sync.OnceValue(func() chan<- func() {
	starts := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range starts {
			start()
		}
	}()
	reserveThreads()
	return starts
})

// spareThreads is how many threads Go may need when no more can be had: one for each system call that waits (a slow disk, a fork)
// while others go on.
const spareThreads = 16

// reserveThreads makes the runtime start threads while there is room for them. It keeps them for ever.
func reserveThreads() {
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
}

// fork starts a child on the thread of forker.
func fork(program string, argv []string, attr *os.ProcAttr) (child *os.Process, err error) {
	done := make(chan struct{})
	forker() <- func() {
		defer close(done)
		child, err = os.StartProcess(program, argv, attr)
	}
	<-done
	if errors.Is(err, syscall.EAGAIN) {
		err = errTooManyProcesses
	}
	return child, err
}

var errTooManyProcesses = errors.New("no more processes may be started: wait until others have ended, or raise the limit (ulimit -u, or the pids limit of the container)")
