package tools

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// queue is maxConcurrent for detached calls, which run in processes of their own: each holds the lock of one of so many files.
type queue struct {
	prefix string
	limit  int
}

const (
	queueDir = "slots"
	// queuePoll is how often a call that waits looks for a free slot.
	queuePoll = 100 * time.Millisecond
)

// newQueue names the slots of a tool.
func newQueue(stateDir, tool string, limit int) *queue {
	name := sha256.Sum256([]byte(tool))
	return &queue{filepath.Join(stateDir, queueDir, fmt.Sprintf("%x", name[:8])), limit}
}

// enter waits for a slot until ctx ends. The kernel frees it when the process ends, however it does.
func (q *queue) enter(ctx context.Context) (leave func(), err error) {
	if err := os.MkdirAll(filepath.Dir(q.prefix), 0o700); err != nil {
		return nil, err
	}
	for {
		for n := range q.limit {
			f, err := os.OpenFile(fmt.Sprintf("%s.%d", q.prefix, n), os.O_RDWR|os.O_CREATE, 0o600)
			if err != nil {
				return nil, err
			}
			if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
				return func() { _ = f.Close() }, nil
			}
			_ = f.Close()
		}
		select {
		case <-time.After(queuePoll):
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for another call to end: %w", context.Cause(ctx))
		}
	}
}
