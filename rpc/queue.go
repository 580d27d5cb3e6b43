package rpc

import "context"

// How lines come into the writer's buffers, and what bounds these:
//
//   - lanes (lane.go) and large replies wait while there is no room: laneRoom or more in the buffer;
//   - small replies are bounded by the requests in flight, whose slots are released when the writer takes the buffer;
//   - cheap answers and passing lines are dropped while more than maxUnread waits;
//   - other control messages never wait: who sends them bounds how many.
const (
	// laneRoom is half of what a Linux pipe takes at once. With more, an answer waits longer behind a flood, which comes no faster.
	laneRoom = 32 << 10
	// maxUnread is how much may wait before what the client can do without is dropped (pings' answers, refusals, notifications
	// that may be lost): a client that does not read this much does not wait for them.
	maxUnread = 32 << 20
	// largeReply is from where on a reply waits for room, as a lane does: as many small ones as there are slots fit into memory, as
	// many large ones do not.
	largeReply = 64 << 10
)

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

// reply appends the response to a request in flight. A large one waits for its turn and for room until ctx ends;
// then, at the end of the session, it is appended like the others.
func (w *writer) reply(ctx context.Context, line []byte) error {
	if len(line) > largeReply {
		err := (&Lane{w}).Write(ctx, func(dst []byte) []byte {
			w.slots++ // mu is held
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
func (w *writer) cheap(line []byte) { w.appendTo(&w.ahead, line) }

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
func (w *writer) behind() int { return len(w.ahead) + len(w.buf) + w.writing }

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
