package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"runnel/rpc/mcp"
)

const (
	// handlerGrace is how long handlers may take to return when their context has ended:
	// longer than the 5 s that a child process gets between TERM and KILL, which a handler may wait for.
	handlerGrace = 10 * time.Second
	// interruptGrace is how long a Read or Write that was interrupted may take to return.
	interruptGrace = time.Second
)

// session is one client: on two pipes (Serve), or one whose lines are brought (Session).
type session struct {
	*peer
	srv *Server
	in  *input // nil for a Session

	// Owned by the reader.
	last   statelessClient // the client of the newest request of the stateless era
	agreed Caller          // the outcome of initialize, copied into the Caller of each request; Version is nil before

	held atomic.Int64 // see batch

	values sync.Map // see SessionValue
}

// statelessClient is what a request of the stateless era says of its client, as it is written and decoded. What is decoded is read only.
type statelessClient struct {
	clientInfo, clientCapabilities json.RawMessage

	client       mcp.Implementation
	capabilities mcp.ClientCapabilities
}

func newSession(ctx context.Context, srv *Server, in io.Reader, out io.Writer) *session {
	s := &session{srv: srv, in: newInput(in)}
	s.begin(ctx, newLineReader(s.in, srv.opt.MaxLine), pipeOutput{nudger{out, s.in}})
	return s
}

// begin makes the session's peer.
func (s *session) begin(ctx context.Context, lines lineSource, out Output) {
	s.peer = newPeer(lines, out, s.srv.opt.MaxLine, s.srv.opt.MaxInFlight, s.srv.opt.Log)
	s.role, s.maxValues = s, maxValues
	// Not derived from ctx, so that the handlers see ErrShutdown as the cause of every end.
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
}

// Serve serves one client until in ends, ctx ends or out fails.
//
// When in ends (EOF), requests in flight go on for Options.Drain. Then, and at once when ctx ends, the contexts of the
// rest end with [ErrShutdown]; what is queued by then is written, as long as the client reads. Neither is an error.
// Serve returns when all its goroutines have ended. If a Read or Write does not return, it sets a deadline on in or out or closes it,
// if one of that can be done; a blocked Read of a terminal or of an inherited pipe cannot be ended, and ends with the process.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ss := newSession(ctx, s, in, out)
	ss.start()

	select {
	case <-ss.input.Done():
		ss.drain(ctx)
	case <-ctx.Done():
	case <-ss.w.failed.Done():
	}
	ss.stopHandlers()
	ss.flush(ctx, out)
	ss.stopReader()
	return ss.end()
}

// drain waits for the requests in flight.
func (s *session) drain(ctx context.Context) {
	patient := s.srv.opt.Drain < 0
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.w.failed, cancel)()
	if !patient {
		defer time.AfterFunc(s.srv.opt.Drain, cancel).Stop()
	}
	s.incoming.wait(ctx)
	if patient {
		for _, f := range s.srv.onDrain {
			f(ctx)
		}
	}
}

// stopHandlers ends what is still in flight.
func (s *session) stopHandlers() {
	s.endHandlers(ErrShutdown)
	for _, f := range s.srv.onStop {
		f()
	}
}

// endHandlers waits for the handlers, whose contexts end with a cause.
func (s *session) endHandlers(cause error) {
	s.cancel(cause)
	s.incoming.close()
	ctx, cancel := context.WithTimeout(context.Background(), handlerGrace)
	defer cancel()
	if n := s.incoming.wait(ctx); n > 0 {
		s.log.Warn().Int("count", n).Dur("after", handlerGrace).Msg("some handlers did not end: going on without them")
	}
}

// flush writes what is queued and ends the writer. With a negative Drain it waits as long as the client takes.
func (s *session) flush(ctx context.Context, out io.Writer) {
	if s.srv.opt.Drain < 0 {
		s.w.close()
		select {
		case <-s.w.done:
		case <-ctx.Done():
		}
	}
	if lost := s.w.finish(); lost > 0 {
		s.log.Warn().Int("bytes", lost).Msg("the client does not read: the rest of the output is lost")
		if interrupt(out) {
			waitFor(s.w.done)
		}
	}
}

// stopReader lets the Conn hear of the end, and ends a Read that waits.
func (s *session) stopReader() {
	s.stop()
	if s.input.Err() == nil && !s.in.interrupt() {
		_ = s.conn.Close() // it says only whether it was closed before
		return
	}
	waitFor(s.conn.DisconnectNotify())
	_ = s.conn.Close()
}

// end returns why the session has ended, nil if it ended as it should.
func (s *session) end() error {
	if err := context.Cause(s.w.failed); err != nil && err != errUnread {
		return err
	}
	err := context.Cause(s.input)
	for _, fine := range []error{io.EOF, os.ErrClosed, os.ErrDeadlineExceeded, io.ErrClosedPipe} { // the last three are what interrupt makes of a Read
		if errors.Is(err, fine) {
			return nil
		}
	}
	return err
}

func waitFor(done <-chan struct{}) {
	select {
	case <-done:
	case <-time.After(interruptGrace):
	}
}
