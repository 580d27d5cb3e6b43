package rpc

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// These bound the memory that a peer who does not read can take:
//
//   - lanes, large replies and requests wait for their turn, which does not come;
//   - small replies are bounded by the requests in flight, whose slots are released when the writer takes their replies;
//   - what the peer can do without (answers to pings, refusals, notifications that may be lost) is dropped above maxUnread;
//   - other control lines never wait: their senders bound how many there are.
const (
	// laneRoom is the size of a write from which on no further lane is pulled for it: half of what a Linux
	// pipe takes at once. A larger one delays answers in a flood, and makes the flood no faster.
	laneRoom = 32 << 10
	// maxUnread is how much may be unread before lines that the peer can do without are dropped.
	maxUnread = 32 << 20
	// largeReply is the size from which on a reply waits for its turn as a lane does: one small reply for
	// each slot fits into memory, one large reply for each does not.
	largeReply = 64 << 10
)

// flushGrace is how long the other side may take to read what is queued at the end.
const flushGrace = 2 * time.Second

// errUnread is the reason for the end of a writer whose output nobody took.
var errUnread = errors.New("the client does not read")

// writer is the one goroutine that writes to the peer (run). For each write it takes the waiting control
// lines, pulls the lane whose turn it is, and begins again as long as there is more and the write is short.
// So control lines are written in the order in which they were queued, each lane's lines in their order, and
// what is queued after [Caller.Write] has returned comes after what that wrote.
//
//	control lines ─ appended ─▶ control ─┐
//	lanes ─ wait in turn ─▶ turns ─ encode ─▶ one buffer ─ out.Write ─▶ peer
type writer struct {
	out       Output
	reader    string          // who reads the output: client or server
	freeSlots func(slots int) // returns the slots of replies that are about to be written
	log       zerolog.Logger

	// holds a value when there may be something to write: whether it is a reply; capacity 1.
	wake   chan bool
	done   chan struct{}   // closed when run has ended
	failed context.Context // ends when nothing more can be written; its cause is the reason
	fail   context.CancelCauseFunc

	writing  atomic.Int64 // bytes of the current write
	dropping sync.Once    // the first dropped line is logged

	lasts bool // until close, as a session's own does: no hold matters

	mu      sync.Mutex
	closing bool    // write what is there, then end
	moving  bool    // write the control lines, then close: the rest goes another way
	holds   int     // how many may still have something to write; at 0 the writer begins to close
	control []byte  // lines that go first
	slots   int     // held by the replies in control
	turns   []*turn // lanes that wait to be pulled
}

// Output is where a session writes. A carrier implements it, bounds what it holds, and waits when that is
// full; for pipes there already is one.
type Output interface {
	// WriteLines takes complete lines, possibly none, and must not keep them. Nothing follows if last is set.
	// If it has to wait for its reader, it waits until ctx ends at the latest.
	WriteLines(ctx context.Context, lines []byte, last bool) error
}

// turn is a lane's place in the queue for the writer's round.
type turn struct {
	encode func(dst []byte) []byte
	slots  int        // requests in flight that it answers; their holds end with it
	over   chan error // gets nil after encode, or the reason why the turn never comes; capacity 1
}

func newWriter(out Output, freeSlots func(int), log zerolog.Logger) *writer {
	w := &writer{out: out, reader: "client", freeSlots: freeSlots, log: log, holds: 1,
		wake: make(chan bool, 1), done: make(chan struct{})}
	w.failed, w.fail = context.WithCancelCause(context.Background())
	context.AfterFunc(w.failed, func() { trySend(w.wake, false) })
	return w
}

// run writes until close or an error.
func (w *writer) run() {
	defer close(w.done)
	var buf []byte
	for last := false; !last && w.failed.Err() == nil; {
		buf = buf[:0]
		more := true
		// One lane is pulled even if control lines fill the write, so that a client that pings all the time
		// gets the rest, too.
		for first := true; more && (first || len(buf) < laneRoom); first = false {
			var t *turn
			var slots int
			buf, t, slots, more, last = w.take(buf)
			// The slots are free before the write: a client that sees an answer may send its next request.
			if slots > 0 {
				w.freeSlots(slots)
			}
			if t == nil {
				break
			}
			buf = t.encode(buf)
			t.over <- nil
		}
		if len(buf) > 0 || last {
			w.writing.Store(int64(len(buf)))
			if err := w.out.WriteLines(w.failed, buf, last); err != nil {
				w.fail(fmt.Errorf("writing to the %s: %w", w.reader, err))
			}
			w.writing.Store(0)
			if cap(buf) > keepBuffer {
				buf = nil
			}
		}
		if !more && !last {
			if reply := <-w.wake; reply {
				// The first of many replies has woken this goroutine, which runs at once: let the goroutines
				// that make the others run.
				runtime.Gosched()
			}
		}
	}
	w.failTurns()
	w.mu.Lock()
	slots := w.slots // of replies that will never be taken
	w.slots = 0
	w.mu.Unlock()
	if slots > 0 {
		w.freeSlots(slots)
	}
}

// take appends the queued control lines to buf, and takes the lane whose turn it is; nil if none waits. The
// lane may have been opened after one of those lines, such as a task's after its handle, so it encodes behind
// them. slots are those of what is taken. take reports whether more is waiting, and whether nothing follows.
func (w *writer) take(buf []byte) (taken []byte, t *turn, slots int, more, last bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(buf) == 0 {
		taken, w.control = w.control, buf // nothing is copied
	} else {
		taken, w.control = append(buf, w.control...), w.control[:0]
	}
	slots, w.slots = w.slots, 0
	w.writing.Store(int64(len(taken)))
	if w.moving { // the lanes go another way
		// It closes after the control lines are written: what comes later may not overtake them.
		w.closing = w.closing || len(taken) == 0
		return taken, nil, slots, !w.closing, w.closing
	}
	if len(w.turns) > 0 {
		t = w.turns[0]
		w.turns = w.turns[1:]
		slots += t.slots
		w.unhold(t.slots)
	}
	more = len(w.turns) > 0
	return taken, t, slots, more, w.closing && !more
}

// queue appends a control line. slots is how many requests in flight it answers; their holds end with it.
func (w *writer) queue(line []byte, slots int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.ended(); err != nil {
		return err
	}
	w.control = append(w.control, line...)
	w.slots += slots
	trySend(w.wake, slots > 0)
	w.unhold(slots)
	return nil
}

// now queues a line that answers no request in flight.
func (w *writer) now(line []byte) error { return w.queue(line, 0) }

// try queues a line that the peer can do without: it is dropped while too much is unread.
func (w *writer) try(line []byte) error {
	if unread := w.unread(); unread > maxUnread {
		w.dropping.Do(func() {
			w.log.Warn().Int("unread", unread).
				Msgf("the %s does not read: dropping what it can do without", w.reader)
		})
		return nil
	}
	return w.queue(line, 0)
}

// reply queues the response to a request in flight, whose hold ends with it. A large one waits for its turn
// until ctx ends; then, at the end of the session, it is queued as the others are.
func (w *writer) reply(ctx context.Context, line []byte) error {
	if len(line) > largeReply {
		err := w.inTurn(ctx, line, 1)
		if err == nil || ctx.Err() == nil {
			return err
		}
	}
	return w.queue(line, 1)
}

// inTurn queues a line that waits for its turn.
func (w *writer) inTurn(ctx context.Context, line []byte, slots int) error {
	return w.awaitTurn(ctx, func(dst []byte) []byte {
		// No one uses its memory again: 7 MiB take longer to copy than to check.
		if len(dst) == 0 && cap(line) > keepBuffer {
			return line
		}
		return append(dst, line...)
	}, slots)
}

// hold keeps the writer open until release. It reports false if the writer has already closed.
func (w *writer) hold() bool {
	if w.lasts {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended() != nil {
		return false
	}
	w.holds++
	return true
}

// release ends a hold.
func (w *writer) release() {
	if w.lasts {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unhold(1)
}

// unhold ends holds. mu is held.
func (w *writer) unhold(holds int) {
	if w.holds -= holds; w.holds == 0 && !w.lasts {
		w.closing = true
		trySend(w.wake, false)
	}
}

// awaitTurn is [Caller.Write].
func (w *writer) awaitTurn(ctx context.Context, encode func(dst []byte) []byte, slots int) error {
	// A stream whose context has ended must write nothing more.
	if err := ctx.Err(); err != nil {
		return err
	}
	t := &turn{encode, slots, make(chan error, 1)}
	w.mu.Lock()
	if err := w.ended(); err != nil {
		w.mu.Unlock()
		return err
	}
	w.turns = append(w.turns, t)
	trySend(w.wake, false)
	w.mu.Unlock()
	select {
	case err := <-t.over:
		return err
	case <-ctx.Done():
	}
	w.mu.Lock()
	i := slices.Index(w.turns, t)
	if i < 0 { // too late: the writer is encoding it, or the output has ended
		w.mu.Unlock()
		return <-t.over
	}
	w.turns = slices.Delete(w.turns, i, i+1)
	w.mu.Unlock()
	return ctx.Err()
}

// unread returns how many bytes wait to be written.
func (w *writer) unread() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.control) + int(w.writing.Load())
}

// ended returns the reason why nothing more can be written, nil if it can. mu is held.
func (w *writer) ended() error {
	if w.closing {
		return ErrClosed
	}
	return context.Cause(w.failed)
}

// close lets run end after it has written what is queued. Waiting lanes get ErrClosed.
func (w *writer) close() {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	w.failTurns()
	trySend(w.wake, false)
}

// move lets run end after it has written the control lines. Waiting lanes, and what is queued later, get
// ErrClosed.
func (w *writer) move() {
	w.mu.Lock()
	w.moving = true
	w.mu.Unlock()
	trySend(w.wake, false)
}

// finish closes the writer, and waits until what is queued is written, for at most flushGrace. It returns how
// many bytes were not written.
func (w *writer) finish() (lost int) {
	w.close()
	select {
	case <-w.done:
	case <-time.After(flushGrace):
		lost = w.unread()
		w.fail(errUnread)
	}
	return lost
}

// failTurns ends every wait for a turn after the output has ended.
func (w *writer) failTurns() {
	w.mu.Lock()
	turns, err := w.turns, w.ended()
	w.turns = nil
	w.mu.Unlock()
	for _, t := range turns {
		t.over <- err
	}
}

// trySend wakes the goroutine that receives from a channel of capacity 1, now or when it next does.
func trySend(c chan<- bool, value bool) {
	select {
	case c <- value:
	default:
	}
}
