//go:build !linux

package schema

import (
	"testing"
	"time"
)

// cpuTime returns the time that f takes.
func cpuTime(_ *testing.T, f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}
