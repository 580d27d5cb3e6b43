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

// fewAnswers is how many bytes of answers alone are not worth a write while others are being made.
const fewAnswers = 4 << 10

// writer is the only one that writes to the client: on its own goroutine (run), or on that of who has something to say (writeNow), one
// at a time. Everything that goes out is appended to a buffer (queue.go, lane.go), so the order of appending is the order on the wire;
// while one buffer is being written another one fills. Only cheap answers overtake: they have a buffer of their own.
//
//	buf, ahead ─ swap ─▶ taken ─ out.Write ─▶ client
//	                       └──── attempt ───▶ client, and what it does not take at once ─▶ rest ─ out.Write ─▶ client
type writer struct {
	out     io.Writer
	peer    string           // who reads: client or server
	attempt func([]byte) int // writes what out takes without being waited for; nil if that cannot be known
	release func(slots int)  // gives back the slots of the replies that are about to be written
	flooded func()           // called after each long write; nil for nothing
	log     zerolog.Logger

	wake chan struct{} // there may be something for run; capacity 1
	done chan struct{} // closed when run has ended

	turns  sync.Pool       // of *turn; not one for all writers: a channel made in a synctest bubble cannot leave it
	failed context.Context // ends when nothing more can be written; its cause tells why
	broken context.CancelCauseFunc

	mu       sync.Mutex
	closing  bool      // write what is there, then end
	buf      []byte    // what waits to be written
	slots    int       // of the replies in buf
	ahead    []byte    // cheap answers: written before buf
	overtook bool      // ahead was written last: now it is buf's turn, whatever else comes
	waiting  list.List // of *turn: lanes in the order in which they came, while buf has no room
	dropped  int       // cheap answers and passing lines

	// What is being written.
	writing int    // bytes, rest included
	now     bool   // writeNow writes: run must not
	rest    []byte // what writeNow could not write; it comes before all else
	spare   []byte // a buffer that has been written: the next buf
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

// take waits for something to write. It returns nil when run is to end.
func (w *writer) take() (taken []byte, slots int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.now || !w.due() {
		w.mu.Unlock()
		<-w.wake
		w.mu.Lock()
		if w.slots > 0 && len(w.buf) < fewAnswers {
			// The first answer of many has woken this goroutine, which runs at once. Behind those that make the others there are ten to write.
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

// due reports whether there is something for run: to write, or to end. mu is held.
func (w *writer) due() bool {
	return len(w.rest) > 0 || !w.empty() || w.closing || w.failed.Err() != nil
}

// empty reports whether there is nothing for swap. mu is held.
func (w *writer) empty() bool { return len(w.ahead) == 0 && len(w.buf) == 0 }

// swap takes the cheap answers or the buffer, nil if there is nothing, and lets those who wait fill the other buffer. mu is held.
func (w *writer) swap() (taken []byte, slots int) {
	if w.empty() {
		return nil, 0
	}
	if len(w.ahead) > 0 && (len(w.buf) == 0 || !w.overtook) {
		taken, w.ahead, w.overtook, w.writing = w.ahead, nil, true, len(w.ahead)
		return taken, 0
	}
	taken, slots = w.buf, w.slots
	w.buf, w.spare, w.slots, w.overtook, w.writing = w.spare, nil, 0, false, len(taken)
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
// writes; all else is left to run. To wake run for one small line takes longer than to write it.
func (w *writer) writeNow() {
	w.mu.Lock()
	switch {
	case w.empty():
		w.mu.Unlock()
		return
	case w.attempt == nil || w.writing > 0 || w.closing || w.failed.Err() != nil:
		w.mu.Unlock()
		w.signal()
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
	due := w.due()
	w.mu.Unlock()
	if due {
		w.signal()
	}
}

// signal wakes run.
func (w *writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
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
	w.ahead, w.buf = nil, nil
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
