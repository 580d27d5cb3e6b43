package engine

import (
	"context"
	"time"
)

// Pause waits for a while, and reports false if ctx has ended first.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
