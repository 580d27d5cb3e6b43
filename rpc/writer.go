package rpc

import (
	"container/list"
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/rs/zerolog"
)

const (
	// laneRoom is how much may wait to be written before the lanes wait: half of what a Linux pipe takes at once. With more, an
	// answer waits longer behind a flood, which comes no faster.
	laneRoom = 32 << 10
	// maxUnread is how much may wait before what the client can do without is dropped (pings' answers, refusals, notifications
	// that may be lost): a client that does not read this much does not wait for them.
	maxUnread = 32 << 20
	// fewAnswers is how many bytes of answers alone are not worth a write while others are being made.
	fewAnswers = 4 << 10
)

// writer is the only one that writes to the client: on its own goroutine (run), or on that of who has something to say (writeNow), one
// at a time. All that goes out is appended to one buffer, so the order of appending is the order on the wire; while one buffer is
// being written the other one fills. Only cheap answers overtake: they have a buffer of their own.
//
// What bounds it: lanes wait while laneRoom or more is in the buffer, and so do large replies. Control messages never wait; small
// replies are bounded by the requests in flight, whose slots are released when the writer takes the buffer, and cheap answers and passing lines by maxUnread.
type writer struct {
	out     io.Writer
	peer    string          // who reads: client or server
	release func(slots int) // gives back the slots of the replies that are about to be written
	flooded func()          // called after each long write; nil for nothing
	log     zerolog.Logger

	wake chan struct{} // there may be something to do; capacity 1
	done chan struct{} // closed when the goroutine has ended

	turns  sync.Pool       // of *turn; not one for all writers: a channel made in a synctest bubble cannot leave it
	failed context.Context // ends when nothing more can be written; its cause tells why
	broken context.CancelCauseFunc

	attempt func([]byte) int // writes what can be written without waiting; nil if that cannot be known

	mu      sync.Mutex
	buf     []byte
	slots   int       // of the replies in buf
	first   []byte    // cheap answers: written before buf
	passed  bool      // they were what was taken last: now it is buf's turn, whatever else comes
	spare   []byte    // to be filled next
	rest    []byte    // what writeNow could not write
	writing int       // bytes that are being written, and rest
	now     bool      // writeNow writes
	waiting list.List // of *turn: lanes in the order in which they came
	closing bool      // write what is there, then end
	dropped int       // cheap answers and passing lines
}

func newWriter(out io.Writer, release func(int), log zerolog.Logger) *writer {
	w := &writer{out: out, peer: "client", release: release, log: log, wake: make(chan struct{}, 1), done: make(chan struct{}), attempt: nonblocking(out)}
	w.turns.New = func() any { return &turn{over: make(chan error, 1)} }
	w.failed, w.broken = context.WithCancelCause(context.Background())
	return w
}

// run writes until close or an error.
func (w *writer) run() {
	defer close(w.done)
	for {
		taken, slots := w.take()
		if taken == nil {
			return
		}
		// Released before the write: as soon as the client sees an answer it may send its next request.
		w.release(slots)
		if _, err := w.out.Write(taken); err != nil {
			w.fail(fmt.Errorf("writing to the %s: %w", w.peer, err))
			return
		}
		w.mu.Lock()
		w.written(taken)
		w.mu.Unlock()
		if w.flooded != nil && len(taken) >= laneRoom {
			w.flooded()
		}
	}
}

// take waits for something to write. It returns nil when there is nothing more to come.
func (w *writer) take() (taken []byte, slots int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.now || len(w.rest) == 0 && w.empty() && !w.closing && w.failed.Err() == nil {
		w.mu.Unlock()
		<-w.wake
		w.mu.Lock()
		if w.slots > 0 && len(w.buf) < fewAnswers {
			// Who is woken runs at once, when one call of many has been answered. Behind the others there are ten answers to write.
			w.mu.Unlock()
			runtime.Gosched()
			w.mu.Lock()
		}
	}
	if w.failed.Err() != nil {
		return nil, 0
	}
	if taken = w.rest; len(taken) > 0 {
		w.rest = nil
		return taken, 0
	}
	return w.swap()
}

// empty tells whether there is nothing to take. mu is held.
func (w *writer) empty() bool { return len(w.first) == 0 && len(w.buf) == 0 }

// swap takes the cheap answers or the buffer, nil if there is nothing, and lets those who wait fill the other buffer. mu is held.
func (w *writer) swap() (taken []byte, slots int) {
	if w.empty() {
		return nil, 0
	}
	if w.passed = len(w.buf) == 0 || len(w.first) > 0 && !w.passed; w.passed {
		taken, w.first, w.writing = w.first, nil, len(w.first)
		return taken, 0
	}
	taken, slots = w.buf, w.slots
	w.buf, w.spare, w.slots, w.writing = w.spare, nil, 0, len(taken)
	for w.waiting.Len() > 0 && len(w.buf) < laneRoom {
		t := w.waiting.Remove(w.waiting.Front()).(*turn)
		w.buf = t.encode(w.buf)
		t.over <- nil
	}
	return taken, slots
}

// written takes back a buffer that has been written. mu is held.
func (w *writer) written(taken []byte) {
	if w.writing = 0; cap(taken) <= keepBuffer && cap(taken) > cap(w.spare) {
		w.spare = taken[:0]
	}
}

// writeNow writes what is there on the caller's goroutine, as far as the client takes it without being waited for, if nobody else
// writes. To wake run for one small line takes longer than to write it.
func (w *writer) writeNow() {
	w.mu.Lock()
	if w.empty() || w.attempt == nil || w.writing > 0 || w.closing || w.failed.Err() != nil {
		idle := w.empty()
		w.mu.Unlock()
		if !idle {
			w.signal()
		}
		return
	}
	taken, slots := w.swap()
	w.now = true
	w.mu.Unlock()
	w.release(slots)
	n := w.attempt(taken)
	w.mu.Lock()
	w.now = false
	if n == len(taken) {
		w.written(taken)
	} else {
		w.rest, w.writing = taken[n:], len(taken)-n
	}
	more := len(w.rest) > 0 || !w.empty() || w.closing || w.failed.Err() != nil
	w.mu.Unlock()
	if more {
		w.signal()
	}
}

func (w *writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// control appends a line at once. slots is how many requests in flight it answers.
func (w *writer) control(line []byte, slots int) error {
	w.mu.Lock()
	if err := w.ended(); err != nil {
		w.mu.Unlock()
		return err
	}
	w.buf = append(w.buf, line...)
	w.slots += slots
	w.mu.Unlock()
	w.signal()
	return nil
}

// largeReply is from where on a response waits for room, as a lane does: as many small ones as there are slots fit
// into memory, as many large ones do not.
const largeReply = 64 << 10

// reply appends the response to a request in flight. A large one waits for its turn and for room until ctx ends;
// then, at the end of the session, it is appended like the others.
func (w *writer) reply(ctx context.Context, line []byte) error {
	if len(line) > largeReply {
		err := (&Lane{w}).Write(ctx, func(dst []byte) []byte {
			w.slots++
			return append(dst, line...)
		})
		if err == nil || ctx.Err() == nil {
			return err
		}
	}
	return w.control(line, 1)
}

// cheap queues the answer to a line that took no slot in flight, unless too much is unread. It goes out with writeNow or signal,
// which must follow, before anything else that waits: behind the partials of a flood a ping took half as long again.
func (w *writer) cheap(line []byte) { w.appendTo(&w.first, line) }

// passing is control for a line that the client can do without: it is dropped where too much is unread.
func (w *writer) passing(line []byte) {
	w.appendTo(&w.buf, line)
	w.signal()
}

// appendTo appends a line to one of the buffers, unless too much is unread.
func (w *writer) appendTo(buf *[]byte, line []byte) {
	w.mu.Lock()
	unread := w.behind()
	first := false
	switch {
	case w.ended() != nil:
	case unread > maxUnread:
		w.dropped++
		first = w.dropped == 1
	default:
		*buf = append(*buf, line...)
	}
	w.mu.Unlock()
	if first {
		w.log.Warn().Int("unread", unread).Msgf("the %s does not read: dropping what it can do without", w.peer)
	}
}

// unread is how many bytes wait to be written.
func (w *writer) unread() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.behind()
}

// behind is unread where mu is held.
func (w *writer) behind() int { return len(w.first) + len(w.buf) + w.writing }

// ended says why nothing more can be appended. mu is held.
func (w *writer) ended() error {
	switch {
	case w.closing:
		return ErrClosed
	case w.failed.Err() != nil:
		return context.Cause(w.failed)
	}
	return nil
}

// close lets run end when what has been appended is written. Lanes that wait are told ErrClosed.
func (w *writer) close() {
	w.mu.Lock()
	w.closing = true
	w.turnAway(ErrClosed)
	dropped := w.dropped
	w.mu.Unlock()
	if dropped > 0 {
		w.log.Warn().Int("count", dropped).Msgf("lines were dropped because the %s did not read", w.peer)
	}
	w.signal()
}

// fail ends everything: nothing more can be written. It returns how many bytes are lost. Only the first error counts.
func (w *writer) fail(err error) (lost int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed.Err() != nil {
		return 0
	}
	lost = w.behind()
	w.first, w.buf = nil, nil
	w.broken(err)
	w.turnAway(err)
	w.signal()
	return lost
}

// turnAway ends every wait for a turn. mu is held.
func (w *writer) turnAway(err error) {
	for w.waiting.Len() > 0 {
		w.waiting.Remove(w.waiting.Front()).(*turn).over <- err
	}
}
