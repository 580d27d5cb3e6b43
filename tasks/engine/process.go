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
	// The shortest time between two writes of a task's output, unless there is much; 0 = 50 ms.
	Pace time.Duration

	Now func() time.Time // nil = time.Now
}

// process is what a State and its spaces know about this process.
type process struct {
	Options
	Keeper string // its name
	news   news
}

// Notice wakes everyone who waits in Heed, or the next caller.
func (p *process) Notice() { p.news.send() }

// shows reports whether a task is visible.
func (p *process) shows(r *Record) bool {
	return r != nil && !r.Expired(p.Now()) && (!r.Hidden || p.Calls || r.Damage != nil)
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

// news announces that there is something for Heed, to all calls of it that wait, or to the next one.
type news struct {
	mu     sync.Mutex
	sent   chan struct{} // closed by send
	unread bool          // send was called since read
}

func (n *news) send() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unread = true
	close(n.sent)
	n.sent = make(chan struct{})
}

// read returns a channel that the next send closes, and reports whether there was one since the last read.
func (n *news) read() (sent <-chan struct{}, unread bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	unread = n.unread
	n.unread = false
	return n.sent, unread
}
