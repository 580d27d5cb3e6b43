// Package pause waits.
package pause

import (
	"context"
	"time"
)

// For waits for d, and reports false if ctx ends first.
func For(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
