package rpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"runnel/rpc/mcp"
)

// Session is a client without pipes. A carrier such as HTTP passes each line to it, with an output for the
// answers.
//
//	Take ─▶ peer.take ... handler ─▶ the line's writer ─▶ its Output
//	                      └ once that is closed, and what answers nothing ─▶ the session's writer ─▶ its Output
type Session struct {
	*session
	taking sync.Mutex // held while a line is taken

	open    sync.WaitGroup // exchanges whose writer runs
	closing sync.Once
	closed  context.Context // ends with Close, and exchanges with it
	shut    context.CancelFunc
}

// Exchange is a line and everything that is sent because of it. It ends when the line has been answered, if
// it needs an answer, and is no longer held (see Caller.Hold).
type Exchange struct{ w *writer }

// NewSession starts a session for a carrier other than two pipes (for those, see [Server.Serve]). out takes
// what belongs to no line, or to a line whose exchange has ended; nil = it is dropped.
func (s *Server) NewSession(out Output) *Session {
	c := &Session{session: &session{srv: s}}
	c.closed, c.shut = context.WithCancel(context.Background())
	c.begin(context.Background(), out)
	if out == nil {
		c.w.fail(ErrClosed)
	}
	c.start()
	return c
}

// Take takes a line, of at most Options.MaxLine bytes. It waits until the lines before have been taken, not
// for answers: out gets these, if there are any, and learns which line is the last. Take fails if the session
// has ended.
func (c *Session) Take(line []byte, out Output) (*Exchange, error) {
	return c.exchange(out, func(w *writer) {
		if m, request := c.take(bytes.TrimSpace(line), w); request {
			c.pass(&m)
		}
	})
}

// Version returns the protocol version that initialize has negotiated, nil before that or if it failed. It
// must not be called while Take takes initialize.
func (c *Session) Version() *mcp.Version { return c.negotiated.Version }

// exchange makes an exchange. take takes what begins it; what is answered at once is in w when it returns, so
// that the writer knows which line is the last.
func (c *Session) exchange(out Output, take func(w *writer)) (x *Exchange, err error) {
	c.taking.Lock()
	defer c.taking.Unlock()
	if c.input.Err() != nil {
		return nil, ErrClosed
	}
	defer func() {
		if p := recover(); p != nil {
			c.panicked(p)
			x, err = nil, ErrClosed
		}
	}()
	w := newWriter(out, c.incoming.freeSlots, c.log)
	take(w)
	w.release()
	stop := context.AfterFunc(c.closed, func() { w.finish() })
	c.open.Go(func() {
		defer stop()
		w.run()
	})
	return &Exchange{w}, nil
}

// Abandon ends an exchange whose output is no longer read. A carrier calls it when a connection is lost for
// good.
func (x *Exchange) Abandon() { x.w.fail(errUnread) }

// Move ends an exchange whose client reads the session's output instead: what follows the lines that wait
// goes there (see Caller.Hold).
func (x *Exchange) Move() { x.w.move() }

// Cut reports whether the session has ended the exchange while it was still held.
func (x *Exchange) Cut() bool {
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	return x.w.closing && x.w.holds > 0
}

// Drain takes no more lines, and waits for the requests in flight until ctx ends. At the end of a server,
// call it before End.
func (c *Session) Drain(ctx context.Context) {
	c.endInput(io.EOF)
	_ = c.incoming.running.Wait(ctx) // fails only when ctx ends
}

// End takes no more lines and ends the requests in flight: with [ErrShutdown] when the server stops, or with
// [ErrCancelled], as if the client had cancelled them, when the client is gone or has said goodbye.
func (c *Session) End(cause error) {
	c.endInput(io.EOF)
	c.endHandlers(cause)
}

// Close ends the session after End. Queued lines are still written, as long as the carrier takes them.
func (c *Session) Close() { c.closing.Do(c.close) }

func (c *Session) close() {
	c.shut()
	c.w.finish()
	<-c.w.done
	c.taking.Lock() // an exchange may still be opening
	c.endInput(io.EOF)
	c.taking.Unlock()
	c.open.Wait()
}

// A carrier may lose a connection in the middle of a stream, and another process may have to resume the
// stream. So the lines of a stream that can be resumed have a mark: text before the message that says where
// to resume after it. The carrier cuts the mark off (CutMark), gives it to the client in its own way, and
// passes it back ([Session.Resume]).

// ErrNoStream is returned for a mark that names no stream, or one that can never be resumed.
var ErrNoStream = errors.New("the mark names no stream that can be resumed")

// HandleResume registers the function that resumes streams. f finds the stream that a mark names; its error
// is ErrNoStream if there will never be one. begin must not wait: it calls Caller.Hold, and writes the rest
// of the stream in another goroutine until its context ends: later output is not taken. A mark
// comes from the client, so nothing in it can be trusted.
func (s *Server) HandleResume(f func(ctx context.Context,
	mark string) (begin func(open context.Context, c *Caller), err error)) {
	s.resume = f
}

// Resumes reports whether streams can be resumed by their marks.
func (s *Server) Resumes() bool { return s.resume != nil }

// Marks reports whether lines for this caller may begin with a mark, which must have no '{' and no '['.
func (c *Caller) Marks() bool {
	return c.session.conn == nil && c.Era == Handshake && c.session.srv.Resumes()
}

// Marked returns the caller with a mark at the beginning of its lines, other than its response.
func (c *Caller) Marked(mark string) *Caller {
	marked := *c
	marked.head = append([]byte(mark), c.head...)
	return &marked
}

// CutMark splits a line of a [Session] with marks into its mark, "" if it has none, and its message.
func CutMark(line []byte) (mark string, message []byte) {
	if i := bytes.IndexAny(line, "{["); i > 0 {
		return string(line[:i]), line[i:]
	}
	return "", line
}

// Resume writes the rest of a stream that was lost after a line with this mark. The session must have taken
// initialize before.
func (c *Session) Resume(ctx context.Context, mark string, out Output) (*Exchange, error) {
	if !c.srv.Resumes() {
		return nil, ErrClosed
	}
	begin, err := c.srv.resume(ctx, mark)
	if err != nil {
		return nil, err
	}
	return c.exchange(out, func(w *writer) {
		if c.negotiated.Version == nil {
			return
		}
		caller := c.negotiated
		caller.session = c.session
		caller.head = lineHead
		caller.call = &call{w: w}
		begin(w.failed, &caller)
	})
}
