package process

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"runnel/internal/pause"
	"runnel/internal/system"
)

// Slots is maxConcurrent for detached calls. Each call runs in a separate process, which holds the lock of
// one of as many files.
type Slots struct {
	prefix string
	limit  int
}

const (
	slotsDir = "slots"
	// slotsPoll is how often a call that waits looks for a free slot.
	slotsPoll = 100 * time.Millisecond
)

// NewSlots names the slots of a tool.
func NewSlots(stateDir, tool string, limit int) *Slots {
	name := sha256.Sum256([]byte(tool))
	return &Slots{filepath.Join(stateDir, slotsDir, fmt.Sprintf("%x", name[:8])), limit}
}

// Enter waits for a slot until ctx ends. The kernel frees the slot when the process ends, for any reason.
func (s *Slots) Enter(ctx context.Context) (leave func(), err error) {
	if err := os.MkdirAll(filepath.Dir(s.prefix), 0o700); err != nil {
		return nil, err
	}
	for {
		for n := range s.limit {
			f, err := os.OpenFile(fmt.Sprintf("%s.%d", s.prefix, n), os.O_RDWR|os.O_CREATE, 0o600)
			if err != nil {
				return nil, err
			}
			if system.Lock(f) == nil {
				return func() { _ = f.Close() }, nil
			}
			_ = f.Close()
		}
		if !pause.For(ctx, slotsPoll) {
			return nil, fmt.Errorf("waiting for another call to end: %w", context.Cause(ctx))
		}
	}
}
