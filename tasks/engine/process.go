package engine

import (
	"sync"
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
	Pace      time.Duration // the shortest time between two writes of a task's output, unless there is much; 0 = 50 ms

	Now func() time.Time // nil = time.Now
}

// process is what a State and its spaces know about this process.
type process struct {
	Options
	Keeper string // its name
	bell   bell
}

// Notice wakes everyone who waits in Heed, or the next caller.
func (p *process) Notice() { p.bell.ring() }

// shows reports whether a task is visible.
func (p *process) shows(r *Record) bool {
	return r != nil && !r.Expired(p.Now()) && (!r.Stored.Hidden || p.Calls || r.Damage != nil)
}

// Left returns how long what is stored of a task is kept.
func (p *process) Left(t *tasks.Task) time.Duration {
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

// bell announces that there is something for Heed.
type bell struct {
	mu   sync.Mutex
	rung chan struct{} // closed when it rings
	news bool          // it has rung since answer was last called
}

// ring wakes everyone who waits, or the next one.
func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.news = true
	close(b.rung)
	b.rung = make(chan struct{})
}

// answer returns a channel that is closed when the bell rings, and reports whether it has rung since the last
// call.
func (b *bell) answer() (rung <-chan struct{}, news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	rung, news = b.rung, b.news
	b.news = false
	return rung, news
}
