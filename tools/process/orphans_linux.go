package process

import (
	"context"
	"os"
	"syscall"
	"time"
)

// orphanAge is how old an ended process must be to count as an orphan. The parts of runnel wait for their own
// children at once.
const orphanAge = time.Second

// CollectOrphans waits, until ctx ends, for processes that others started and that have ended. Only the first
// process of a container gets such children: it is the parent of all that have lost theirs.
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

// zombies returns the children of this process that have ended and were not waited for, with the times when
// they began.
func zombies() map[int]string {
	all := map[int]string{}
	for _, pid := range processes() {
		if s, ok := readStat(pid); ok && s.ended() && s.parent == os.Getpid() {
			all[pid] = s.start
		}
	}
	return all
}
