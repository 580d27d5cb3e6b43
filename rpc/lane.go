package rpc

import (
	"container/list"
	"context"
)

// Lane carries the notifications of one stream. Lanes take turns: each Write goes behind those that waited before it.
type Lane struct{ w *writer }

// turn is a Write that waits.
type turn struct {
	encode func(dst []byte) []byte
	place  *list.Element
	over   chan error // one value when the turn has been had or will never come; capacity 1
}

// Write waits for the lane's turn; then the writer pulls: it calls encode, which appends complete lines (each with its '\n') to dst
// and returns it. Lanes that wait are pulled one after the other, after all control messages that wait, as soon as the write
// at hand is over. So encode is called as late as can be: a slow client makes for larger batches. Nothing of another lane
// or of the control messages comes between the lines that encode appends, and what is queued after Write has returned comes
// after them.
//
// encode is called at most once, on the writer's goroutine, and never after Write has returned. It is not called at all
// when Write returns an error: ctx ended first, or the output is gone. It appends 64 KiB or so, and may take short locks; it must
// not block, nor call back into this package. A client that does not read makes Write wait, and only ctx ends that.
//
// This is the whole contract: whoever streams is one loop that waits for something to say and calls Write. The rest of it
// ([Lane.WriteNow]) is about to go.
func (l *Lane) Write(ctx context.Context, encode func(dst []byte) []byte) error {
	// Not even when there is room: a stream whose context has ended is a stream that must say nothing more.
	if err := ctx.Err(); err != nil {
		return err
	}
	t, err := l.enter(encode)
	if t == nil {
		return err
	}
	defer func() { t.encode, t.place = nil, nil; l.w.turns.Put(t) }()
	select {
	case err := <-t.over:
		return err
	case <-ctx.Done():
		return l.leave(t, ctx.Err())
	}
}

// WriteNow is Write for those who must not wait: it reports false where Write would, and asks the same of encode. What it writes is
// with the client when it returns, unless others write or the client does not read.
func (l *Lane) WriteNow(encode func(dst []byte) []byte) (bool, error) {
	w := l.w
	w.mu.Lock()
	if err := w.ended(); err != nil {
		w.mu.Unlock()
		return false, err
	}
	room := w.waiting.Len() == 0 && len(w.buf) < laneRoom
	if room {
		w.buf = encode(w.buf)
	}
	w.mu.Unlock()
	if room {
		w.writeNow()
	}
	return room, nil
}

// enter encodes at once if there is room and nobody waits, else it queues.
func (l *Lane) enter(encode func([]byte) []byte) (*turn, error) {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.ended(); err != nil {
		return nil, err
	}
	if w.waiting.Len() == 0 && len(w.buf) < laneRoom {
		w.buf = encode(w.buf)
		w.signal()
		return nil, nil
	}
	t := w.turns.Get().(*turn)
	t.encode = encode
	t.place = w.waiting.PushBack(t)
	return t, nil
}

// leave gives up a turn, unless it has just been had.
func (l *Lane) leave(t *turn, cause error) error {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case err := <-t.over:
		return err
	default:
		w.waiting.Remove(t.place)
		return cause
	}
}
