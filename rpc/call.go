package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"runnel/rpc/mcp"
)

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

// newCall copies what a request needs out of its line, but the method.
func newCall(p *peer, m *message) *call {
	raw := append(append(make([]byte, 0, len(m.id)+len(m.params)), m.id...), m.params...)
	m.w.hold()
	c := &call{incoming: &p.incoming, log: &p.log, parent: p.ctx, w: m.w, id: raw[:len(m.id):len(m.id)], key: idKey(m.id), head: m.head(), batch: m.batch}
	if m.params != nil {
		c.params = raw[len(m.id):]
	}
	return c
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
	defer c.incoming.leave(c)
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
	case context.Cause(c.ctx) == ErrShutdown && (errors.Is(err, context.Canceled) || errors.Is(err, ErrShutdown)):
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
			c.log.Error().Str("method", c.method).Str("panic", fmt.Sprint(p)).Bytes("stack", debug.Stack()).Msg("a handler panicked")
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
	w     *writer
	held  *atomic.Int64 // bytes of answers in all incomplete batches
	calls []func()      // the calls of the batch; owned by the reader, which starts them after it has read the whole batch

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
