package rpc

import (
	"context"
	"sync"
	"time"

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

	mu       sync.Mutex
	last     uint64
	byNumber map[uint64]*call
	byID     map[string]*call
	streams  map[string]bool // ids under which more responses come
	slots    int
	moved    time.Time     // when a slot was taken or became free last
	room     chan struct{} // closed when one becomes free; nil unless the reader waits
	bytes    int64
	running  int           // handlers
	closed   bool          // nothing more is admitted
	idle     chan struct{} // closed when no handler runs; nil unless somebody waits
}

// slotPatience is how long ago a slot may have been taken or become free where the reader waits for the next one. Quick calls come
// faster than they are answered when a script writes all of them at once. Once this time has shown that calls are long, the next ones
// are refused at once. With 50 ms a busy machine of two cores, on which a process may not run for that long, refused 5 % of a burst of echo
// calls. Longer is worse where slots do become free, but seldom: what comes after a call that waits, such as a cancellation, waits, too.
const slotPatience = 250 * time.Millisecond

// add numbers a request, whose id must not be in flight.
func (f *incoming) add(c *call) *Error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byID[c.key] != nil || f.streams[c.key] {
		return Errorf(mcp.CodeInvalidRequest, "the id %.100s is still in flight", c.id)
	}
	f.last++
	c.number = f.last
	f.byNumber[c.number], f.byID[c.key] = c, c
	return nil
}

// call is the request with a number.
func (f *incoming) call(number uint64) *call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byNumber[number]
}

// remove takes back what add has done.
func (f *incoming) remove(c *call) {
	f.mu.Lock()
	f.forget(c)
	f.mu.Unlock()
}

// forget frees a request's id. mu is held.
func (f *incoming) forget(c *call) {
	delete(f.byNumber, c.number)
	delete(f.byID, c.key)
}

// admit takes a slot and begins to count a request. Its handler must run then, and end with leave. It waits for a slot while
// they become free (slotPatience).
func (f *incoming) admit(c *call) *Error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.slots >= f.max && !f.closed {
		left := slotPatience - time.Since(f.moved)
		if left <= 0 {
			return Errorf(mcp.CodeBusy, "too many requests in flight: the limit is %d", f.max)
		}
		f.awaitSlot(left)
	}
	switch {
	case f.closed:
		return Errorf(mcp.CodeBusy, "%v", ErrShutdown)
	case f.bytes > 0 && f.bytes+int64(len(c.params)) > f.maxBytes:
		return Errorf(mcp.CodeBusy, "requests in flight are too large together: the limit is %d bytes", f.maxBytes)
	}
	f.slots++
	f.moved = time.Now()
	f.running++
	f.bytes += int64(len(c.params))
	return nil
}

// awaitSlot waits until a slot becomes free, so long at the most. mu is held, but not meanwhile.
func (f *incoming) awaitSlot(limit time.Duration) {
	room := make(chan struct{})
	f.room = room
	f.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-room:
	case <-timer.C:
	}
	f.mu.Lock()
}

// free makes slots free. mu is held.
func (f *incoming) free(slots int) {
	f.slots -= slots
	if slots > 0 {
		f.moved = time.Now()
		f.wakeReader()
	}
}

// wakeReader ends awaitSlot. mu is held.
func (f *incoming) wakeReader() {
	if f.room != nil {
		close(f.room)
		f.room = nil
	}
}

// stream reports whether more responses will come under an id.
func (f *incoming) stream(key string, more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !more {
		delete(f.streams, key)
		return
	}
	if f.streams == nil {
		f.streams = map[string]bool{}
	}
	f.streams[key] = true
}

// cancel ends a request by its id, once. Unknown ones are ignored: the answer may have been on its way (basic/utilities/cancellation).
func (f *incoming) cancel(key string) {
	f.mu.Lock()
	c := f.byID[key]
	if c == nil || c.cancelled || c.cancel == nil {
		f.mu.Unlock()
		return
	}
	c.cancelled = true
	f.mu.Unlock()
	c.cancel(f.cause)
}

// finish frees the id of a request whose response is about to be sent. If it is not wanted the client has cancelled
// the request, no response must be sent, and its slot is free.
func (f *incoming) finish(c *call) (wanted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget(c)
	cancelled := c.cancelled || context.Cause(c.ctx) == f.cause // with all others of a Session
	if cancelled {
		f.free(1)
	}
	return !cancelled
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
