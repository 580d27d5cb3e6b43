package tasks

import (
	"context"
	"time"

	"runnel/rpc/mcp"
)

// The tests in tasks_test, which use a state on disk, look at these.

const (
	ExpiredMessage = expiredMessage
	TailBytes      = tailBytes
	WakeInterval   = wakeInterval
	MaxMemory      = maxMemory
)

// WithClock is o with another wall clock.
func (o Options) WithClock(now func() time.Time) Options { o.now = now; return o }

func (m *Memory) SetClock(now func() time.Time) { m.now = now }

// ExpiryWaits reports whether the run's expiry was still waited for. It is not any more.
func (r *Run) ExpiryWaits() bool { return r.expiryTimer.Stop() }

func (q *Question) Key() string { return q.key }

func (r *Runner) UpdateTask(ctx context.Context, p mcp.UpdateTaskParams) (any, error) {
	return r.updateTask(ctx, nil, p)
}

func (m *Memory) Held() int64 { return m.held }

func (r *Runner) State() State { return r.o.State }

func (r *Runner) Running(id string) *Run { return r.running(id) }

func (r *Runner) Followed(id string) *View { return r.view(id) }
