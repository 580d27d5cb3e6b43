package rpc

import (
	"context"
	"slices"
)

// Lane is where a stream is written: it waits for its turn among all others that have something.
type Lane struct{ w *writer }

// turn is a Write that waits.
type turn struct {
	encode func(dst []byte) []byte
	slots  int        // requests in flight that it answers
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
func (l *Lane) Write(ctx context.Context, encode func(dst []byte) []byte) error {
	return l.w.awaitTurn(ctx, 0, encode)
}

// awaitTurn is [Lane.Write]. slots is how many requests in flight it answers.
func (w *writer) awaitTurn(ctx context.Context, slots int, encode func(dst []byte) []byte) error {
	// A stream whose context has ended must say nothing more.
	if err := ctx.Err(); err != nil {
		return err
	}
	t := &turn{encode: encode, slots: slots, over: make(chan error, 1)}
	if err := w.enter(t); err != nil {
		return err
	}
	select {
	case err := <-t.over:
		return err
	case <-ctx.Done():
		if w.leave(t) {
			return ctx.Err()
		}
		return <-t.over
	}
}

// enter puts a turn behind those that wait.
func (w *writer) enter(t *turn) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.ended(); err != nil {
		return err
	}
	w.turns = append(w.turns, t)
	w.signal()
	return nil
}

// leave gives up a turn. It reports false if it is too late for that: the writer is at it, or the output has ended.
func (w *writer) leave(t *turn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.turns, t)
	if i >= 0 {
		w.turns = slices.Delete(w.turns, i, i+1)
	}
	return i >= 0
}
