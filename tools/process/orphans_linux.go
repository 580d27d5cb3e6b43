package process

import (
	"context"
	"os"
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
	go func() {
		look := time.NewTicker(orphanAge)
		defer look.Stop()
		for seen := map[int]string{}; ; {
			select {
			case <-look.C:
			case <-ctx.Done():
				return
			}
			now := zombies()
			for pid, start := range now {
				if seen[pid] == start {
					_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
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
