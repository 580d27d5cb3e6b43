package remote

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"runnel/internal/signal"
	"runnel/partials/tracker"
	"runnel/rpc"
)

// Call is one call of a tool of another server. It is followed to its end in any era and dialect: plainly or
// as a task, with partials in any spelling, with questions, and with cancellation.
type Call struct {
	o       Options
	tracker *tracker.Tracker
	changed signal.Wake        // a message about the call has come
	early   chan resultOrError // capacity 1: the answer to awaitResult
	awaits  sync.Once

	// Set when the call is made.
	client *rpc.Client
	tool   string
	all    context.Context // ends with the call, and with the connection

	background sync.WaitGroup // goroutines beside Run; they end with the call
	spoken     atomic.Bool    // a notification has come since the last poll
	cutShort   atomic.Bool    // the server has handed the call over to a task

	mu       sync.Mutex
	ended    bool            // nothing more may start in the background
	answered map[string]bool // questions of a task, by key
	open     int             // how many of them are still unanswered
}

const (
	// defaultPoll is how often a task is polled if the server does not say.
	defaultPoll = 2 * time.Second
	leastPoll   = 100 * time.Millisecond
	// cancelGrace is how long a cancelled call may take to end: longer than the 5 s that a command gets
	// between TERM and KILL.
	cancelGrace = 8 * time.Second
	// fetchTime is how long a server may take to answer a fetch of missing output before patience asks
	// something else.
	fetchTime = 30 * time.Second
)

// resultOrError is the answer to tasks/result.
type resultOrError struct {
	result json.RawMessage
	err    error
}

// Tracker returns the tracker of the call's output, to compare the output with the result.
func (c *Call) Tracker() *tracker.Tracker { return c.tracker }

// CutShort reports whether the server has stopped sending output before the end: the rest is in the result
// only.
func (c *Call) CutShort() bool { return c.cutShort.Load() }

// start runs f in the background, unless the call has ended.
func (c *Call) start(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.background.Go(f)
	}
}

// end stops everything in the background and waits for it.
func (c *Call) end(stop func()) {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	stop()
	c.background.Wait()
}
