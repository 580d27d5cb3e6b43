package rpc

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"runnel/rpc/mcp"
)

// incoming holds the requests of the other side that are being answered.
//
// An id is in flight until the last of its responses is about to be sent or, if none is sent, until its handler has returned.
// A slot is taken until the writer takes the first response to hand it to the other side: one that does not read cannot pile
// up responses.
type incoming struct {
	max      int   // slots
	maxBytes int64 // limit of the params of all requests that run
	cause    error // why the context of a cancelled request ends

	room chan struct{} // holds a value when a slot has become free, or nothing more is admitted; capacity 1

	mu      sync.Mutex
	byID    map[string]*call
	streams map[string]bool // ids under which more responses come
	slots   int
	moved   time.Time // when a slot was taken or became free last
	bytes   int64
	running int           // handlers
	closed  bool          // nothing more is admitted
	idle    chan struct{} // closed when no handler runs; nil unless somebody waits
}

// call is a request of the other side's.
type call struct {
	incoming *incoming
	log      *zerolog.Logger
	parent   context.Context // of ctx
	w        *writer         // what answers it; held until it is answered
	id       json.RawMessage // as the other side wrote it
	key      string          // the id in one spelling
	head     []byte          // every line that belongs to it begins with this
	params   json.RawMessage // nil if there are none
	batch    *batch          // it came in; nil if it came alone

	method string // set when it comes from the Conn

	// Set when it is admitted, and started.
	ctx     context.Context
	cancel  context.CancelCauseFunc
	handler func(context.Context) (any, error)
	dress   func(e *encoder, begin int) error // see encoder.response
}

// slotPatience is how long ago a slot may have been taken or become free where the reader waits for the next one. Quick calls come
// faster than they are answered when a script writes all of them at once. Once this time has shown that calls are long, the next ones
// are refused at once. With 50 ms a busy machine of two cores, on which a process may not run for that long, refused 5 % of a burst of echo
// calls. Longer is worse where slots do become free, but seldom: what comes after a call that waits, such as a cancellation, waits, too.
const slotPatience = 250 * time.Millisecond

// admit takes a slot and begins to count a request, whose id must not be in flight. Its handler must run then, and end with leave. It
// waits for a slot while they become free (slotPatience).
func (f *incoming) admit(c *call) *Error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.inFlight(c); err != nil {
		return err
	}
	for f.slots >= f.max && !f.closed {
		left := slotPatience - time.Since(f.moved)
		if left <= 0 {
			return Errorf(mcp.CodeBusy, "too many requests in flight: the limit is %d", f.max)
		}
		f.mu.Unlock()
		select {
		case <-f.room:
		case <-time.After(left):
		}
		f.mu.Lock()
	}
	switch {
	case f.closed:
		return Errorf(mcp.CodeBusy, "%v", ErrShutdown)
	case f.bytes > 0 && f.bytes+int64(len(c.params)) > f.maxBytes:
		return Errorf(mcp.CodeBusy, "requests in flight are too large together: the limit is %d bytes", f.maxBytes)
	}
	c.ctx, c.cancel = context.WithCancelCause(c.parent)
	f.byID[c.key] = c
	f.slots++
	f.moved = time.Now()
	f.running++
	f.bytes += int64(len(c.params))
	return nil
}

// check refuses a request whose id is in flight, and that is not admitted: it is answered at once.
func (f *incoming) check(c *call) *Error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.inFlight(c)
}

// inFlight refuses an id that is in use. mu is held.
func (f *incoming) inFlight(c *call) *Error {
	if f.byID[c.key] != nil || f.streams[c.key] {
		return Errorf(mcp.CodeInvalidRequest, "the id %.100s is still in flight", c.id)
	}
	return nil
}

// free makes slots free. mu is held.
func (f *incoming) free(slots int) {
	f.slots -= slots
	f.moved = time.Now()
	f.wakeReader()
}

// wakeReader lets admit look again.
func (f *incoming) wakeReader() {
	select {
	case f.room <- struct{}{}:
	default:
	}
}

// stream reports whether more responses will come under an id.
func (f *incoming) stream(key string, more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if more {
		f.streams[key] = true
	} else {
		delete(f.streams, key)
	}
}

// cancel ends a request by its id. Unknown ones are ignored: the answer may have been on its way (basic/utilities/cancellation).
func (f *incoming) cancel(key string) {
	f.mu.Lock()
	c := f.byID[key]
	f.mu.Unlock()
	if c != nil {
		c.cancel(f.cause)
	}
}

// finish frees the id of a request whose response is about to be sent. If it is not wanted the client has cancelled
// the request, no response must be sent, and its slot is free.
func (f *incoming) finish(c *call) (wanted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byID, c.key)
	wanted = context.Cause(c.ctx) != f.cause
	if !wanted {
		f.free(1)
	}
	return wanted
}

// release frees the slots of responses that are about to be written.
func (f *incoming) release(slots int) {
	f.mu.Lock()
	f.free(slots)
	f.mu.Unlock()
}

// leave ends what admit began.
func (f *incoming) leave(c *call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bytes -= int64(len(c.params))
	if f.running--; f.running == 0 && f.idle != nil {
		close(f.idle)
		f.idle = nil
	}
}

// close admits nothing more.
func (f *incoming) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.wakeReader()
}

// wait waits until no handler runs and reports how many still do.
func (f *incoming) wait(ctx context.Context) (running int) {
	f.mu.Lock()
	if f.running == 0 {
		f.mu.Unlock()
		return 0
	}
	if f.idle == nil {
		f.idle = make(chan struct{})
	}
	idle := f.idle
	f.mu.Unlock()
	select {
	case <-idle:
		return 0
	case <-ctx.Done():
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.running
	}
}
