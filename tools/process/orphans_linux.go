package process

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// orphanAge is how long a process that has ended waits for whoever started it. Each part of runnel waits for its children at once.
const orphanAge = time.Second

// CollectOrphans collects, until ctx ends, the processes that others started and that have ended. Only the first process of a
// container has such, for which it is the parent of all that have lost theirs.
func CollectOrphans(ctx context.Context) {
	if os.Getpid() != 1 {
		return
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		defer signal.Stop(ended)
		pause := time.NewTimer(orphanAge)
		defer pause.Stop()
		for seen := zombies(); ; {
			if len(seen) == 0 {
				select {
				case <-ended:
				case <-ctx.Done():
					return
				}
			}
			pause.Reset(orphanAge)
			select {
			case <-pause.C:
			case <-ctx.Done():
				return
			}
			now := zombies()
			for pid, start := range now {
				if seen[pid] == start {
					_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
					delete(now, pid)
				}
			}
			seen = now
		}
	}()
}

// zombies are the children of this process that have ended and not been waited for, and when they began.
func zombies() map[int]string {
	all := map[int]string{}
	for _, pid := range processes() {
		if s, ok := readStat(pid); ok && s.ended() && s.parent == os.Getpid() {
			all[pid] = s.start
		}
	}
	return all
}
