package engine

import (
	"time"

	"github.com/rs/zerolog"

	"runnel/tasks"
)

// Options are those of a State in any engine.
type Options struct {
	Limits tasks.Limits // for each owner, over all processes
	Calls  bool         // also finds running calls without a handle: for people, never for clients
	Log    zerolog.Logger
	// Recovered is called with each task that this process has ended because its keeper was gone, except
	// those of workers, which are reported where they were offered. It must not block; nil = nothing is
	// called.
	Recovered func(t *tasks.Task)
	// The shortest time between two writes of a task's output, unless there is much; 0 = 50 ms.
	Pace time.Duration

	Now func() time.Time // nil = time.Now
}

// process is what a State and its spaces know about this process.
type process struct {
	Options
	Keeper string // its name
}

// shows reports whether a task is visible.
func (p *process) shows(r *Record) bool {
	return r != nil && !r.Expired(p.Now()) && (!r.Hidden || p.Calls || r.Damage != nil)
}

// Lifetime returns how long what is stored of a task is kept.
func (p *process) Lifetime(t *tasks.Task) time.Duration {
	if t.TTL > forever {
		return forever
	}
	return max(t.TTL-p.Now().Sub(t.CreatedAt)+graceTTL, time.Second)
}

const (
	// forever is a ttl beyond any need.
	forever = 10 * 365 * 24 * time.Hour
	// graceTTL is how long what belongs to a task outlives it, since its end may still be being stored.
	graceTTL = time.Minute
)
