package run

import (
	"time"

	"runnel/tasks"
)

// The tests in run_test, which use a state on disk, look at these.

const (
	ExpiredMessage = expiredMessage
	WakeInterval   = wakeInterval
)

// WithClock is o with another wall clock.
func (o Options) WithClock(now func() time.Time) Options { o.now = now; return o }

// ExpiryWaits reports whether the run's expiry was still waited for. It is not any more.
func (r *Run) ExpiryWaits() bool { return r.expiryTimer.Stop() }

func (q *Question) Key() string { return q.key }

func (r *Runner) State() tasks.State { return r.o.State }

func (r *Runner) Followed(id string) *View { return r.view(id) }
