package rpc

import (
	"context"
	"sync"
	"time"

	"runnel/rpc/mcp"
)

// inflight holds the requests that are being answered.
//
// An id is in flight until the last of its responses is about to be sent or, if none is sent, until its handler has returned.
// A slot is taken until the writer takes the first response to hand it to the client: a client that does not read cannot pile
// up responses.
type inflight struct {
	max      int   // slots
	maxBytes int64 // of params in all requests that run

	mu      sync.Mutex
	byID    map[string]*call
	streams map[string]bool // ids under which more responses come
	slots   int
	moved   time.Time     // when a slot was taken or became free last
	room    chan struct{} // closed when one becomes free; nil unless the reader waits
	bytes   int64
	running int           // handlers
	closed  bool          // nothing more is admitted
	idle    chan struct{} // closed when no handler runs; nil unless somebody waits
}

// slotPatience is how long ago a slot may have been taken or become free where the reader waits for the next one. Quick calls come
// faster than they are answered when a script writes all of them at once. Once 50 ms have shown that calls are long, the next ones
// are refused at once.
const slotPatience = 50 * time.Millisecond

// admit takes a slot and starts to count a request. Its handler must run then, and end with leave. It waits for a slot while
// they become free (slotPatience).
func (f *inflight) admit(c *call) *Error {
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
	f.byID[c.key] = c
	f.slots++
	f.moved = time.Now()
	f.running++
	f.bytes += int64(len(c.params))
	return nil
}

// awaitSlot waits until a slot becomes free, so long at the most. mu is held, but not meanwhile.
func (f *inflight) awaitSlot(limit time.Duration) {
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
func (f *inflight) free(slots int) {
	f.slots -= slots
	if slots > 0 {
		f.moved = time.Now()
		f.wakeReader()
	}
}

// wakeReader ends awaitSlot. mu is held.
func (f *inflight) wakeReader() {
	if f.room != nil {
		close(f.room)
		f.room = nil
	}
}

// has reports whether an id is in flight.
func (f *inflight) has(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byID[key] != nil || f.streams[key]
}

// stream reports whether more responses will come under an id.
func (f *inflight) stream(key string, more bool) {
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
func (f *inflight) cancel(key string) {
	f.mu.Lock()
	c := f.byID[key]
	if c == nil || c.cancelled {
		f.mu.Unlock()
		return
	}
	c.cancelled = true
	tell := c.onCancel
	f.mu.Unlock()
	c.ctx.Cancel(ErrCancelled)
	if tell != nil {
		go tell()
	}
}

// onCancel sets what runs when a request's context ends before its answer.
func (f *inflight) onCancel(c *call, tell func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.onCancel = tell; c.cancelled || f.closed {
		go tell()
	}
}

// finish frees the id of a request whose response is about to be sent, first. If it is not wanted the client has cancelled
// the request, no response must be sent, and its slot is free.
func (f *inflight) finish(c *call) (first, wanted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.answered {
		return false, false
	}
	c.answered = true
	delete(f.byID, c.key)
	if c.cancelled {
		f.free(1)
	}
	return true, !c.cancelled
}

// release frees the slots of responses that are about to be written.
func (f *inflight) release(slots int) {
	f.mu.Lock()
	f.free(slots)
	f.mu.Unlock()
}

// leave ends what admit began.
func (f *inflight) leave(c *call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bytes -= int64(len(c.params))
	if f.running--; f.running == 0 && f.idle != nil {
		close(f.idle)
		f.idle = nil
	}
}

// close admits nothing more, and tells who wants to know that the contexts have ended.
func (f *inflight) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.wakeReader()
	for _, c := range f.byID {
		if c.onCancel != nil && !c.cancelled {
			go c.onCancel()
		}
	}
}

// wait waits until no handler runs and reports how many still do.
func (f *inflight) wait(ctx context.Context) (running int) {
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
