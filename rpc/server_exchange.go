package rpc

import (
	"bytes"
	"context"
	"io"
	"sync"

	"runnel/rpc/mcp"
)

// Session is a client without pipes. A carrier such as HTTP passes each line to it, with an output for the
// answers.
//
//	Take ─ Exchange ─▶ peer.next ... handler ─▶ the line's writer ─▶ its Output
//	                                  └ once that is closed, and what answers nothing ─▶ the session's writer ─▶ its Output
type Session struct {
	*session
	exchanges chan *Exchange
	at        *Exchange // the current line; owned by the reader

	open    sync.WaitGroup // exchanges whose writer runs
	closing sync.Once
	closed  context.Context // ends with Close, and exchanges with it
	shut    context.CancelFunc
}

// Exchange is a line and everything that is sent because of it. It ends when the line has been answered, if
// it needs an answer, and nobody holds it any more (see Caller.Hold).
type Exchange struct {
	line  []byte
	begin func(context.Context, *Caller) // instead of a line: continues a stream (see Resume)
	w     *writer
	taken chan struct{} // closed when the reader has processed the line
}

// NewSession starts a session for a carrier other than two pipes (for those, see [Server.Serve]). out takes
// what belongs to no line, or to a line whose exchange has ended; nil = it is dropped.
func (s *Server) NewSession(out Output) *Session {
	c := &Session{session: &session{srv: s}, exchanges: make(chan *Exchange)}
	c.closed, c.shut = context.WithCancel(context.Background())
	c.begin(context.Background(), c.nextLine, out)
	if out == nil {
		c.w.fail(ErrClosed)
	}
	c.start()
	return c
}

// Take passes on a line, of at most Options.MaxLine bytes, and returns when the line has been processed. out
// gets the answers, if there are any, and learns which line is the last. Take fails if the session has ended.
func (c *Session) Take(line []byte, out Output) (*Exchange, error) {
	return c.exchange(&Exchange{line: bytes.TrimSpace(line)}, out)
}

// Version returns the protocol version that initialize has negotiated, nil before that or if it failed. It
// must not be called while Take takes initialize. Use it where the carrier depends on the version.
func (c *Session) Version() *mcp.Version { return c.negotiated.Version }

func (c *Session) exchange(x *Exchange, out Output) (*Exchange, error) {
	x.w, x.taken = newWriter(out, c.incoming.freeSlots, c.log), make(chan struct{})
	select {
	case c.exchanges <- x:
	case <-c.input.Done():
		return nil, ErrClosed
	}
	select {
	case <-x.taken:
		return x, nil
	case <-c.input.Done(): // the reader has failed, or drops what still arrives
		return nil, ErrClosed
	}
}

// Abandon ends an exchange whose output nobody reads any more. A carrier calls it when a connection is gone
// for good.
func (x *Exchange) Abandon() { x.w.fail(errUnread) }

// Move ends an exchange whose client reads the session's output instead: what follows the lines that wait
// goes there (see Caller.Hold).
func (x *Exchange) Move() { x.w.move() }

// Cut reports whether the session has ended the exchange while somebody still held it.
func (x *Exchange) Cut() bool {
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	return x.w.closing && x.w.holds > 0
}

// nextLine returns the next line from the carrier. None is too long.
func (c *Session) nextLine() ([]byte, error) {
	for {
		if c.at != nil {
			c.leave(c.at)
			c.at, c.to = nil, c.w
		}
		select {
		case c.at = <-c.exchanges:
			c.to = c.at.w
		case <-c.input.Done():
			return nil, io.EOF
		}
		if c.at.begin == nil {
			return c.at.line, nil
		}
		c.resume(c.at)
	}
}

// leave lets the answers of a line be written. It comes after the reader's own answers, so that the writer
// knows which of them is the last.
func (c *Session) leave(x *Exchange) {
	x.w.release()
	stop := context.AfterFunc(c.closed, func() { x.w.finish() })
	c.open.Go(func() {
		defer stop()
		x.w.run()
	})
	close(x.taken)
}

// Drain takes no more lines, and waits for the requests in flight until ctx ends. At the end of a server,
// call it before End.
func (c *Session) Drain(ctx context.Context) {
	c.endInput(io.EOF)
	c.incoming.wait(ctx)
}

// End takes no more lines and ends the requests in flight: with [ErrShutdown] when the server stops, or with
// [ErrCancelled], as if the client had cancelled them, when the client is gone or has said goodbye.
func (c *Session) End(cause error) {
	c.endInput(io.EOF)
	c.endHandlers(cause)
}

// Close ends the session after End. Queued lines are still written, as long as somebody takes them.
func (c *Session) Close() { c.closing.Do(c.close) }

func (c *Session) close() {
	c.shut()
	c.w.finish()
	<-c.w.done
	close(c.drained)
	<-c.conn.DisconnectNotify() // the reader may still be opening an exchange
	c.open.Wait()
	_ = c.conn.Close() // its error only says that it was closed before
}
