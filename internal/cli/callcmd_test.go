package cli

import (
	"context"
	"io"
	"testing"
)

// canceller ends a context when something is written.
type canceller struct{ cancel context.CancelFunc }

func (c canceller) Write(p []byte) (int, error) {
	c.cancel()
	return len(p), nil
}

// A Ctrl-C may come while a call ends by itself. The race detector looks at what is said about it.
func TestInterruptedAtTheEnd(t *testing.T) {
	t.Parallel()
	env := []string{"XDG_STATE_HOME=" + t.TempDir(), "HOME=" + t.TempDir(), "RUNNEL_CONFIG=/dev/null"}
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		Run(ctx, []string{"call", "stream", "count=1", "--selftest", "-o", "json"}, env, nil, canceller{cancel}, io.Discard)
		cancel()
	}
}
