package rpc

import "context"

// Lane is where a stream is written: it waits for its turn among all others that have something.
type Lane struct{ w *writer }

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
