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
	// handlerGrace is how long handlers may take to return after their context has ended: longer than the 5 s
	// that a child process, for which a handler may wait, gets between TERM and KILL.
	handlerGrace = 10 * time.Second
	// interruptGrace is how long an interrupted Read or Write may take to return.
	interruptGrace = time.Second
)

// session is one client: on two pipes (Serve), or with lines that a carrier brings (Session).
type session struct {
	*peer
	srv *Server

	// Owned by the goroutine that takes a line.
	last statelessClient // the client of the latest request of the stateless era
	// The outcome of initialize, copied into the Caller of each request; Version is nil before initialize.
	negotiated Caller

	held atomic.Int64 // see batch

	values sync.Map // see SessionValue
}

// statelessClient is what a request of the stateless era says about its client, encoded and decoded. The
// decoded part is read-only.
type statelessClient struct {
	clientInfo, clientCapabilities json.RawMessage

	client       mcp.Implementation
	capabilities mcp.ClientCapabilities
}

// begin makes the session's peer.
func (s *session) begin(ctx context.Context, out Output) {
	s.peer = newPeer(out, s.srv.opt.MaxLine, s.srv.opt.MaxInFlight, s.srv.opt.Log)
	s.role, s.maxValues = s, maxValues
	// This context is not derived from ctx, so that the handlers always see ErrShutdown as its cause.
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
}

// Serve serves one client until in ends, ctx ends or out fails.
//
// When in ends (EOF), requests in flight go on for Options.Drain. Then, or at once when ctx ends, the
// contexts of the remaining ones end with [ErrShutdown]; what is queued by then is written, as long as the
// client reads. Neither is an error. Serve returns when all its goroutines have ended. If a Read or Write
// does not return, Serve sets a deadline on in or out, or closes it. A blocked Read of a terminal or of an
// inherited pipe cannot be ended, and stays until the process exits.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ss := &session{srv: s}
	input := newInput(in)
	ss.begin(ctx, pipeOutput{out, input})
	ss.conn = newConn(ss.peer, input, io.EOF)
	ss.start()

	select {
	case <-ss.input.Done():
		ss.drain(ctx)
	case <-ctx.Done():
	case <-ss.w.failed.Done():
	}
	ss.endHandlers(ErrShutdown)
	for _, f := range s.onStop {
		f()
	}

	// The queue is still written. With a negative Drain the client gets as much time as it needs.
	if s.opt.Drain < 0 {
		ss.w.close()
		select {
		case <-ss.w.done:
		case <-ctx.Done():
		}
	}
	if lost := ss.w.finish(); lost > 0 {
		ss.log.Warn().Int("bytes", lost).Msg("the client does not read: the rest of the output is lost")
		if interrupt(out) {
			waitFor(ss.w.done)
		}
	}

	// The Conn may see the end of the input, and a Read that waits ends.
	close(ss.conn.drained)
	if ss.input.Err() != nil || input.interrupt() {
		waitFor(ss.conn.rpc.DisconnectNotify())
	}
	_ = ss.conn.rpc.Close() // its error only says that it was closed before

	if err := context.Cause(ss.w.failed); err != nil && err != errUnread {
		return err
	}
	err := context.Cause(ss.input)
	// interrupt makes a Read return one of the last three.
	for _, fine := range []error{io.EOF, os.ErrClosed, os.ErrDeadlineExceeded, io.ErrClosedPipe} {
		if errors.Is(err, fine) {
			return nil
		}
	}
	return err
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
	_ = s.incoming.running.Wait(ctx) // fails only when ctx ends
	if patient {
		for _, f := range s.srv.onDrain {
			f(ctx)
		}
	}
}

// endHandlers ends the contexts of the handlers with a cause, and waits for them.
func (s *session) endHandlers(cause error) {
	s.cancel(cause)
	s.incoming.close()
	ctx, cancel := context.WithTimeout(context.Background(), handlerGrace)
	defer cancel()
	_ = s.incoming.running.Wait(ctx) // fails only when ctx ends
	if n := s.incoming.running.Count(); n > 0 {
		s.log.Warn().Int("count", n).Dur("after", handlerGrace).
			Msg("some handlers did not end: going on without them")
	}
}

func waitFor(done <-chan struct{}) {
	select {
	case <-done:
	case <-time.After(interruptGrace):
	}
}
