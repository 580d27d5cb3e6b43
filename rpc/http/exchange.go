package httpserver

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

const (
	// resumeGrace is how long a client may take to come back for a stream.
	resumeGrace = time.Minute
	// maxFinished is how many finished streams of a session are kept for clients that come back.
	maxFinished = 4
)

// exchange is the answer to a POST.
type exchange struct {
	*stream
	*rpc.Exchange
	rejoined bool   // it continues another stream after a mark
	result   string // the task whose result it waits for; "": it does not
}

// end ends the exchange that fills the stream. There is none if the stream only says that an answer is lost.
func (e *exchange) end() {
	if e.Exchange != nil {
		e.Abandon()
	}
}

// stream makes the stream for a POST, or one that continues another stream after a mark.
func (c *session) stream(mark string) *exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	e := &exchange{stream: newStream(strconv.Itoa(c.last)+c.names, c.standing.inAll),
		rejoined: resumable(mark)}
	e.before = mark
	e.mark = mark
	e.asks = c.forward
	c.streams[e.name] = e
	return e
}

// resume connects to an event's stream, after that event; "" is the standing stream, after what was sent.
func (c *session) resume(ctx context.Context, lastEvent string) (*sender, error) {
	if lastEvent == "" {
		defer c.handOn()
		return c.standing.begin(), nil
	}
	name, rest, _ := strings.Cut(lastEvent, "-")
	number, mark, _ := strings.Cut(rest, "-")
	after, err := strconv.Atoi(number)
	if err != nil {
		return nil, errForgotten
	}
	c.mu.Lock()
	e := c.streams[name]
	c.mu.Unlock()
	from, err := (*sender)(nil), errForgotten
	switch {
	case e != nil:
		from, err = e.connect(after)
	case strings.TrimRight(name, letters) == "0":
		// The standing stream begins empty: the messages that waited on it were lost with the process before.
		defer c.handOn()
		return c.standing.begin(), nil
	}
	if err == nil || mark == "" {
		return from, err
	}
	// Memory does not have what comes next.
	c.mu.Lock()
	if e != nil && e.Exchange != nil {
		_ = e.begin() // takes the stream over from a connection that still has it
		e.end()
		c.forget(name)
	}
	c.mu.Unlock()
	if !resumable(mark) {
		answer := lost(mark)
		if answer == nil {
			return nil, errForgotten
		}
		e = c.stream("")
		return e.begin(), e.add(ctx, answer, true)
	}
	e = c.stream(mark)
	x, err := c.Resume(ctx, mark, e.stream)
	switch err = c.setExchange(e, x, err); {
	case errors.Is(err, rpc.ErrNoStream):
		return nil, errForgotten
	case err != nil:
		return nil, err
	}
	return e.begin(), nil
}

// setExchange sets the exchange that fills a stream, or forgets the stream if there is none.
func (c *session) setExchange(e *exchange, x *rpc.Exchange, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.Exchange = x; err != nil {
		c.forget(e.name)
	}
	return err
}

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

// awaitsResult notes that a stream waits for a task's result.
func (c *session) awaitsResult(e *exchange, task string) {
	c.mu.Lock()
	e.result = task
	c.mu.Unlock()
	c.forward()
}

// forward sends what a task asks to the client that waits for its result, if no connection sends it: "When
// the requestor encounters the input_required status, it SHOULD preemptively call tasks/result" (2025-11-25
// basic/utilities/tasks). The stream of the call is left, since another can continue after its mark: what it
// has asked comes again on the standing stream (rpc.Caller.Request).
func (c *session) forward() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, to := range c.streams {
		if to.result == "" || !to.isRead() {
			continue
		}
		for name, from := range c.streams {
			if from.Exchange == nil || from.result != "" {
				to.put(from.takeAsked(to.result))
			} else if from.hasAsked(to.result) {
				from.end()
				c.forget(name)
			}
		}
	}
}

// disconnected notes that a connection sends no more of a stream. If the stream has events, another
// connection can continue it for a while.
func (c *session) disconnected(from *sender, whole, events bool) {
	defer c.forward()
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.streams[from.name]
	crowded := c.inAll.Load() > maxKeptInAll
	switch {
	case from.stream == c.standing:
		from.leave(nil)
	case e == nil || !from.current():
	case !whole && (crowded || e.rejoined): // the client can continue in another way
		e.end()
		c.forget(from.name)
	case !whole:
		from.leave(e.end)
		time.AfterFunc(moveGrace, c.handOn)
		time.AfterFunc(resumeGrace, func() { c.giveUp(e, from) })
	case !events:
		c.forget(from.name)
	case !slices.Contains(c.finished, from.name):
		c.finished = append(c.finished, from.name)
		for len(c.finished) > maxFinished || crowded && len(c.finished) > 0 {
			c.forget(c.finished[0])
			c.finished = c.finished[1:]
		}
	}
}

// handOn lets the standing stream, if a connection sends it, take over from streams whose clients have closed
// them after a task's handle: "After the JSON-RPC response has been sent, the server SHOULD terminate the SSE
// stream" (2025-11-25 basic/transports), so a client need not read on.
func (c *session) handOn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, e := range c.streams {
		if e.Exchange != nil && e.hasLeft() && c.standing.isRead() {
			e.moveTo(c.standing)
			e.Move()
			c.forget(name)
		}
	}
}

// giveUp ends a stream that no connection has taken over.
func (c *session) giveUp(e *exchange, from *sender) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams[from.name] == e && from.current() {
		e.end()
		c.forget(from.name)
	}
}

// forget forgets a stream. mu is held.
func (c *session) forget(name string) {
	if e := c.streams[name]; e != nil {
		e.drop()
		delete(c.streams, name)
	}
}

// The answer to a request that is not a task is only kept in its stream. Until that answer, the ids of the
// stream's events contain the request's id, so that a client that comes back after the stream is gone, even
// with its process, at least learns that no answer will come.

const (
	lostPrefix = "call:" // a task's mark has no colon
	maxLostID  = 64      // bytes of the request's id, which is repeated with each event
)

// callMark is the mark of a request's stream until its answer or a task's mark is written; "" for a message
// without an answer.
func callMark(m *message) string {
	if m.id == nil || m.method == "" || len(m.id) > maxLostID {
		return ""
	}
	return lostPrefix + base64.RawURLEncoding.EncodeToString(m.id)
}

// resumable reports whether another stream can continue after a mark.
func resumable(mark string) bool { return mark != "" && !strings.HasPrefix(mark, lostPrefix) }

// lost returns the answer to the request whose id is in a mark, nil if there is none.
func lost(mark string) []byte {
	id, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(mark, lostPrefix))
	answer := rpc.Refusal(id, rpc.Errorf(mcp.CodeInternalError,
		"the answer is lost: the server was restarted, or the connection was lost for too long"))
	if err != nil || rawjson.Member(answer, "id") == nil {
		return nil
	}
	return answer
}
