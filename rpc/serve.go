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

	"runnel/internal/system"
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
	s.incoming.wait(ctx)
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
	if n := s.incoming.wait(ctx); n > 0 {
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

// input is what a session reads. After a long write the output wakes its reader (see pipeOutput): the runtime
// only polls for input when a processor is idle, which is rare while a task streams flat out, and pings spent
// most of their time unnoticed. Without the nudge, a ping beside a flood takes a third longer, and the
// slowest hundredth half as long again (450 µs, then 680).
type input struct {
	io.Reader
	file *os.File // nil if the runtime does not poll the reader

	mu    sync.Mutex
	ended bool // interrupted: its deadline stays
}

func newInput(r io.Reader) *input {
	in := &input{Reader: r}
	if file, ok := r.(*os.File); ok && file.SetReadDeadline(time.Time{}) == nil {
		in.file = file
	}
	return in
}

// Read implements io.Reader. It continues after a nudge.
func (in *input) Read(p []byte) (n int, err error) {
	n, err = in.Reader.Read(p)
	for errors.Is(err, os.ErrDeadlineExceeded) && in.wait(time.Time{}) {
		n, err = in.Reader.Read(p)
	}
	return n, err
}

// wake makes a waiting Read look again if there is something to read: it sets a deadline that has passed,
// which is the only way.
func (in *input) wake() bool {
	if in.file == nil {
		return false
	}
	return system.Readable(in.file) && in.wait(time.Unix(0, 1))
}

// wait sets the deadline of a Read, and reports false if the input was interrupted or has no deadlines.
func (in *input) wait(until time.Time) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.file != nil && !in.ended && in.file.SetReadDeadline(until) == nil
}

// interrupt makes this Read and every later one return, if possible.
func (in *input) interrupt() bool {
	in.mu.Lock()
	in.ended = true
	in.mu.Unlock()
	return interrupt(in.Reader)
}

// interrupt makes a waiting Read or Write return, and reports false if that is impossible.
func interrupt(pipe any) bool {
	var err error
	switch p := pipe.(type) {
	case interface{ SetDeadline(time.Time) error }:
		// An os.File that the runtime does not poll (a terminal, an inherited pipe) has no deadlines, and
		// closing it would not end the Read or Write either.
		err = p.SetDeadline(time.Now())
	case io.Closer:
		err = p.Close()
	default:
		return false
	}
	return err == nil
}
