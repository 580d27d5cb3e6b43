package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/signal"
	"runnel/rpc/mcp"
)

// incoming holds the other side's requests that are being answered.
//
// An id is in flight until the last response to it is about to be sent (finish), or would be if the request
// were not cancelled. A slot is taken until the writer takes the first response, so a side that does not read
// cannot pile up responses.
type incoming struct {
	max      int   // slots
	maxBytes int64 // limit for the params of all running requests
	cause    error // the cause that ends the context of a cancelled request

	room    signal.Wake    // sent after a slot became free, and after close
	running signal.Counter // handlers
	bytes   atomic.Int64   // the params of their requests; only admit adds to it

	mu      sync.Mutex
	byID    map[string]*call
	streams map[string]bool // ids under which more responses will come
	slots   int
	waiting int       // requests that wait, and have no slot yet
	moved   time.Time // when a slot was last taken or freed
	closed  bool      // nothing more is admitted
}

// slotPatience bounds how long the reader of the input waits for a slot while none is taken or freed; after
// that, further calls are refused. It waits because a script that writes all its calls together sends quick
// calls faster than they are answered. A longer wait hurts where slots become free only now and then:
// everything after the waiting call, such as a cancellation, waits with it. With 50 ms, a busy machine of two
// cores refused 5 % of a burst of echo calls, since a process may not run for that long.
const slotPatience = 250 * time.Millisecond

// maxWaits is how many requests of a session may wait: each takes some 10 KiB, and its response is small or
// waits for its turn.
const maxWaits = 1000

// admit takes a slot for a request, whose id must not be in flight. The handler must then run, and release
// must follow. It waits for a slot while slots become free (slotPatience).
func (f *incoming) admit(c *call) *Error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.inFlight(c); err != nil {
		return err
	}
	if c.waits && f.waiting >= maxWaits {
		return Errorf(mcp.CodeBusy, "too many requests wait: the limit is %d", maxWaits)
	}
	for !c.waits && f.slots >= f.max && !f.closed {
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
	case f.bytes.Load() > 0 && f.bytes.Load()+int64(len(c.params)) > f.maxBytes:
		return Errorf(mcp.CodeBusy, "requests in flight are too large together: the limit is %d bytes",
			f.maxBytes)
	}
	c.ctx, c.cancel = context.WithCancelCause(c.parent)
	f.byID[c.key] = c
	if c.waits {
		f.waiting++
	} else {
		f.slots++
		f.moved = time.Now()
	}
	f.running.Add()
	f.bytes.Add(int64(len(c.params)))
	return nil
}

// check refuses a request with an id in flight. It is for requests that are answered at once, without admit.
func (f *incoming) check(c *call) *Error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.inFlight(c)
}

// inFlight returns an error for an id that is in use. mu is held.
func (f *incoming) inFlight(c *call) *Error {
	if f.byID[c.key] != nil || f.streams[c.key] {
		return Errorf(mcp.CodeInvalidRequest, "the id %.100s is still in flight", c.id)
	}
	return nil
}

// stream notes whether more responses will come under an id.
func (f *incoming) stream(key string, more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if more {
		f.streams[key] = true
	} else {
		delete(f.streams, key)
	}
}

// cancel cancels a request by its id. Unknown ids are ignored: the answer may already be on its way
// (basic/utilities/cancellation).
func (f *incoming) cancel(key string) {
	f.mu.Lock()
	c := f.byID[key]
	f.mu.Unlock()
	if c != nil {
		c.cancel(f.cause)
	}
}

// finish frees the id of a request whose response is about to be sent. If the response is not wanted, because
// the other side has cancelled the request, it must not be sent.
func (f *incoming) finish(c *call) (wanted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byID, c.key)
	if c.waits {
		f.waiting--
		f.slots++
	}
	return context.Cause(c.ctx) != f.cause
}

// freeSlots frees the slots of responses that are about to be written, or never will be.
func (f *incoming) freeSlots(slots int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slots -= slots
	f.moved = time.Now()
	f.room.Send()
}

// release notes that the handler of an admitted request has returned, and its response is on its way.
func (f *incoming) release(c *call) {
	f.bytes.Add(-int64(len(c.params)))
	f.running.Done()
}

// close stops admitting requests.
func (f *incoming) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.room.Send()
}

// call is a request from the other side.
type call struct {
	incoming *incoming
	log      *zerolog.Logger
	parent   context.Context // of ctx
	w        *writer         // writes the answer, and is kept open until then
	id       json.RawMessage // as the other side wrote it
	key      string          // the id in its canonical form
	head     []byte          // the beginning of every line that belongs to the request
	params   json.RawMessage // nil if there are none
	waits    bool            // as tasks/result does (mcp.Waits); it takes a slot only for its response
	batch    *batch          // the batch it came in; nil if it came alone

	method string

	// Set when the request is admitted and started.
	ctx    context.Context
	cancel context.CancelCauseFunc
	dress  func(e *encoder, begin int, bare bool) error // see encoder.response
}

// start answers an admitted request in its own goroutine. The requests of a batch start after the whole batch
// has been read.
func (c *call) start(h func(context.Context) (any, error)) {
	run := func() {
		GrowStack()
		c.answer(c.handle(h))
	}
	if c.batch == nil {
		go run()
	} else {
		c.batch.join(run)
	}
}

// answer sends the response.
//
// It does not use Conn.Reply, which would encode the result three times (5 µs, a fifth of an echo), write "<"
// as six bytes, and know neither the other side's own id nor batches. The Conn keeps nothing of a request
// that it has passed on, so it does not miss the reply.
func (c *call) answer(result any, err error) {
	wanted := c.incoming.finish(c)
	defer c.incoming.release(c)
	defer c.cancel(nil)
	if !wanted {
		c.incoming.freeSlots(1)
		defer c.w.release()
	}
	if c.batch != nil {
		defer c.batch.leave()
	}
	a, ok := result.(After)
	if !ok {
		a = After{Result: result}
	}
	if !wanted {
		a.settle(false)
		return
	}
	// Only here an error gets its code.
	failure, ok := errors.AsType[*Error](err)
	switch {
	case err == nil, ok:
	case context.Cause(c.ctx) == ErrShutdown &&
		(errors.Is(err, context.Canceled) || errors.Is(err, ErrShutdown)):
		failure = Errorf(mcp.CodeBusy, "%v", ErrShutdown)
	default:
		c.log.Error().Err(err).Str("method", c.method).Msg("a request failed")
		failure = errInternal
	}
	e := newEncoder()
	defer e.free()
	if c.batch == nil { // the responses of a batch do not stand alone
		e.buf.WriteString(a.Mark)
	}
	if err := e.response(c.head, c.id, a.Result, failure, c.dress); err != nil {
		c.log.Error().Err(err).Str("method", c.method).Msg("a result cannot be encoded")
	}
	if c.batch != nil {
		c.batch.add(e.buf.Bytes(), 1, a)
		return
	}
	err = c.w.reply(c.parent, e.buf.Bytes())
	if err != nil {
		c.incoming.freeSlots(1)
	}
	a.settle(err == nil)
}

// handle calls the handler. A panic fails only this request.
func (c *call) handle(h func(context.Context) (any, error)) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.log.Error().Str("method", c.method).Str("panic", fmt.Sprint(p)).Bytes("stack", debug.Stack()).
				Msg("a handler panicked")
			result, err = nil, errInternal
		}
	}()
	return h(c.ctx)
}

// GrowStack grows a goroutine's stack to what a call needs. Call it first in a goroutine that answers a
// request or runs a tool. A goroutine starts with 2 KiB, and each time that is too little, it is stopped and
// its stack is copied with all its frames: three times on the way through a schema and encoding/json, 15 to
// 30 % of an echo's processor time. At the start there is hardly anything to copy. Entering the function is
// enough to get the space; using it would also clear it.
//
//go:noinline
func GrowStack() {
	if neverTrue {
		var room [14 << 10]byte // with what the runtime keeps free, 16 KiB
		touch(&room)
	}
}

var neverTrue bool

//go:noinline
func touch(room *[14 << 10]byte) { room[0] = 1 }

// maxBatch bounds the messages of a batch: 16 MiB of "1,1,1," would otherwise be answered with a gigabyte of
// errors.
const maxBatch = 1000

// batch collects the answers to the members of a JSON-RPC batch, which are sent as one array when all are
// there (JSON-RPC 2.0, section 6). Only 2025-03-26 has batches.
//
// A batch is refused while more than maxUnread bytes of answers are unread, whether they wait for the rest of
// their batch or for the client.
type batch struct {
	w    *writer
	held *atomic.Int64 // bytes of answers in all incomplete batches
	// The calls of the batch; owned by the reader, which starts them after it has read the whole batch.
	calls []func()

	mu    sync.Mutex
	open  int    // members without an answer, plus the reader while it is still reading the batch
	line  []byte // the answers so far
	slots int
	after []After
}

// join adds a call, which will be answered.
func (b *batch) join(run func()) {
	b.calls = append(b.calls, run)
	b.mu.Lock()
	b.open++
	b.mu.Unlock()
}

// add appends an answer, without its newline, to the array.
func (b *batch) add(answer []byte, slots int, a After) {
	b.mu.Lock()
	defer b.mu.Unlock()
	sep := byte(',')
	if len(b.line) == 0 {
		sep = '['
	}
	b.line = append(append(b.line, sep), answer[:len(answer)-1]...)
	b.held.Add(int64(len(answer)))
	b.slots += slots
	if a.Do != nil || a.Drop != nil {
		b.after = append(b.after, a)
	}
}

// leave ends what join began. The last one to leave sends the array, unless it is empty.
func (b *batch) leave() {
	b.mu.Lock()
	b.open--
	last := b.open == 0
	b.mu.Unlock()
	if last {
		defer b.held.Add(-int64(len(b.line)))
	}
	switch {
	case !last || len(b.line) == 0:
	case b.slots == 0:
		_ = b.w.try(append(b.line, "]\n"...)) // fails only if the reader has closed
	default:
		err := b.w.queue(append(b.line, "]\n"...), b.slots)
		if err != nil {
			b.w.freeSlots(b.slots)
		}
		for _, a := range b.after {
			a.settle(err == nil)
		}
	}
}

// start starts the calls of the batch. The reader leaves first: After.Do, which runs when the answers are
// sent, must not run on the reader's goroutine.
func (b *batch) start() {
	b.leave()
	for _, run := range b.calls {
		go run()
	}
}
