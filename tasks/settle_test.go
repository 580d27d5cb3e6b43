package tasks

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"runnel/rpc/mcp"
)

// endless stores no end of a task.
type endless struct{ *Memory }

func (s endless) Put(ctx context.Context, t Task) error {
	if t.Status.Terminal() {
		return errors.New("no room")
	}
	return s.Memory.Put(ctx, t)
}

// An end that cannot be stored is waited for until its task has expired, and no longer: a supervisor would never end.
func TestSettledWhenExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, Options{Store: endless{NewMemory()}, TTL: 2*settleRetry + time.Second})
		s := start(t, r, func(context.Context, *Run) (*mcp.CallToolResult, string, error) {
			return mcp.Result("fine"), "", nil
		})
		s.Delivered()
		<-s.Ended()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := r.Settled(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < 2*settleRetry {
			t.Errorf("settled after %v, before the task has expired", took)
		}
		r.Close()
	})
}
