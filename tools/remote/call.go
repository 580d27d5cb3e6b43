package remote

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"runnel/partials/tracker"
	"runnel/rpc"
)

// Call is one call of a tool of another server, made and followed to its end in whatever era and dialect that server
// speaks: plainly or as a task, with partials in any spelling, questions and a cancel.
type Call struct {
	o       Options
	tracker *tracker.Tracker
	changed chan struct{}      // capacity 1: something about the call has come
	early   chan resultOrError // capacity 1: the answer to awaitResult
	awaits  sync.Once

	// Set when the call is made.
	client *rpc.Client
	tool   string
	all    context.Context // ends with the call, and with the connection

	background sync.WaitGroup // what goes on beside the call ends with it
	spoken     atomic.Bool    // a notification has come since the last poll
	cutShort   atomic.Bool    // the server has handed the call over

	mu       sync.Mutex
	ended    bool            // nothing more may be started in the background
	answered map[string]bool // questions of a task, by key
	open     int             // how many of them wait for an answer
}

const (
	// defaultPoll is how often a task is asked for that does not tell how often it may be.
	defaultPoll = 2 * time.Second
	leastPoll   = 100 * time.Millisecond
	// cancelGrace is how long a call may take to end when it has been cancelled: longer than the 5 s that a command gets
	// between TERM and KILL.
	cancelGrace = 8 * time.Second
	// fetchTime is how long a server may take to answer with output that is missing, before its silence is doubted.
	fetchTime = 30 * time.Second
)

// resultOrError is the answer to tasks/result.
type resultOrError struct {
	result json.RawMessage
	err    error
}

// Tracker is the tracker of the call's output, for who compares that with the result.
func (c *Call) Tracker() *tracker.Tracker { return c.tracker }

// CutShort reports whether the server has stopped sending the output before its end: what comes after that is in the result only.
func (c *Call) CutShort() bool { return c.cutShort.Load() }

// start starts something in the background.
func (c *Call) start(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.background.Go(f)
	}
}

// end waits for all that goes on in the background, which stop ends.
func (c *Call) end(stop func()) {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	stop()
	c.background.Wait()
}

func (c *Call) wake() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}
