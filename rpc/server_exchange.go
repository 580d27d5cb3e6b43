package rpc

import (
	"bytes"
	"context"
	"io"
	"sync"
)

// Session is a client without pipes: a carrier such as HTTP brings each of its lines, and has an output for what answers it.
//
//	Take ─ brought ─▶ peer.next ... handler ─▶ the line's writer ─▶ its Output
//	                                  └ once that is closed, and what answers nothing ─▶ the session's writer ─▶ its Output
type Session struct {
	*session
	brought chan *Exchange

	open    sync.WaitGroup // exchanges whose writer runs
	closing sync.Once
	closed  context.Context // ends with Close, and exchanges with it
	shut    context.CancelFunc
}

// Exchange is a line and all that goes out because of it. It is over when the line is answered, if it is to be, and nobody
// holds it any more (see Caller.Hold).
type Exchange struct {
	line  []byte
	begin func(context.Context, *Caller) // instead of a line: goes on with a stream (see Resume)
	w     *writer
	taken chan struct{} // closed when the reader has gone through the line
}

// NewSession begins a session for a carrier that is not two pipes; for those there is [Server.Serve]. out takes what belongs to no line, or
// to one whose exchange is over; nil: nobody does.
func (s *Server) NewSession(out Output) *Session {
	c := &Session{session: &session{srv: s}, brought: make(chan *Exchange)}
	c.closed, c.shut = context.WithCancel(context.Background())
	c.begin(context.Background(), &broughtLines{Session: c}, out)
	if out == nil {
		c.w.fail(ErrClosed)
	}
	c.start()
	return c
}

// Take hands over a line, of Options.MaxLine bytes at most, and returns when it has been gone through. out gets what answers it, if
// anything does, and learns which line is the last. Take fails when the session has ended.
func (c *Session) Take(line []byte, out Output) (*Exchange, error) {
	return c.bring(&Exchange{line: bytes.TrimSpace(line)}, out)
}

func (c *Session) bring(x *Exchange, out Output) (*Exchange, error) {
	x.w, x.taken = newWriter(out, c.incoming.release, c.log), make(chan struct{})
	select {
	case c.brought <- x:
	case <-c.input.Done():
		return nil, ErrClosed
	}
	select {
	case <-x.taken:
		return x, nil
	case <-c.input.Done(): // the reader has failed, or drops what still comes
		return nil, ErrClosed
	}
}

// Abandon ends an exchange of which nobody takes anything any more: a carrier calls it when a connection has gone for good.
func (x *Exchange) Abandon() { x.w.fail(errUnread) }

// Cut reports whether the session has ended the exchange while somebody still held it.
func (x *Exchange) Cut() bool {
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	return x.w.closing && x.w.holds > 0
}

// broughtLines are the lines of a Session.
type broughtLines struct {
	*Session
	at *Exchange // the line at hand
}

func (b *broughtLines) next() ([]byte, error) {
	for {
		if b.at != nil {
			b.leave(b.at)
			b.at, b.to = nil, b.w
		}
		select {
		case b.at = <-b.brought:
			b.to = b.at.w
		case <-b.input.Done():
			return nil, io.EOF
		}
		if b.at.begin == nil {
			return b.at.line, nil
		}
		b.resume(b.at)
	}
}

func (b *broughtLines) longID() []byte { return nil } // no line is too long

// leave lets the answers of a line be written: not before, so that what the reader answers itself is seen to be the last.
func (c *Session) leave(x *Exchange) {
	x.w.letGo()
	stop := context.AfterFunc(c.closed, func() { x.w.finish() })
	c.open.Go(func() {
		defer stop()
		x.w.run()
	})
	close(x.taken)
}

// Drain takes no more lines, and waits for the requests in flight until ctx ends: first at the end of a server, before Stop.
func (c *Session) Drain(ctx context.Context) {
	c.endInput(io.EOF)
	c.incoming.wait(ctx)
}

// Stop ends the requests that are still in flight, with [ErrShutdown], when the server is to end.
func (c *Session) Stop() {
	c.endInput(io.EOF)
	c.endHandlers(ErrShutdown)
}

// Cancel ends the requests in flight as if the client had cancelled them, when the client is gone or has said goodbye.
func (c *Session) Cancel() {
	c.endInput(io.EOF)
	c.endHandlers(ErrCancelled)
}

// Close ends the session after Stop or Cancel. What has been queued is written, as long as somebody takes it.
func (c *Session) Close() { c.closing.Do(c.close) }

func (c *Session) close() {
	c.shut()
	c.w.finish()
	<-c.w.done
	c.open.Wait()
	c.stop()
	<-c.conn.DisconnectNotify()
	_ = c.conn.Close() // it says only whether it was closed before
}
