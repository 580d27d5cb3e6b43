package rpc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"runnel/rpc/mcp"
)

// Era is the kind of protocol that a request speaks. It is decided once, when the request is admitted; after
// that, code asks what the caller can do.
type Era uint8

// The eras of MCP.
const (
	Handshake Era = iota + 1 // 2024-11-05 to 2025-11-25: initialize opens a session
	Stateless                // 2026-07-28: every request brings version and capabilities in its _meta
)

// String returns the name of the era, for logs and errors.
func (e Era) String() string { return [...]string{Handshake: "handshake", Stateless: "stateless"}[e] }

// Options of a server. Both the zero value and nil work.
type Options struct {
	Info         mcp.Implementation
	Instructions string
	MaxLine      int // bytes of the longest incoming line; 0 = DefaultMaxLine
	MaxInFlight  int // requests answered at the same time; 0 = DefaultMaxInFlight
	// How long requests in flight may go on after EOF; 0 = DefaultDrain, negative = until they are done.
	Drain time.Duration
	Log   zerolog.Logger
}

// Defaults of [Options], for those who document or repeat them, as a config file does.
const (
	DefaultMaxLine     = 16 << 20
	DefaultMaxInFlight = 256
	// Enough for a call that is nearly done; hosts do not wait long after closing the pipe.
	DefaultDrain = 2 * time.Second
)

// Handler answers a request in its own goroutine; its result is encoded as JSON. ctx ends when the client
// cancels the request (cause [ErrCancelled]; then nothing is sent, whatever the handler returns), when the
// server stops (cause [ErrShutdown]), and at the latest when the request has been answered. params is what
// the client sent, nil if nothing; the handler may keep it.
type Handler func(ctx context.Context, c *Caller, params json.RawMessage) (any, error)

// Server holds the method table. Register everything before its first client: before [Server.Serve] or
// [Server.NewSession].
type Server struct {
	opt     Options
	methods map[methodKey]Handler
	declare []func(*Caller, *mcp.ServerCapabilities)
	onDrain []func(context.Context)
	other   func(ctx context.Context, c *Caller, method string, params json.RawMessage) (any, error)
	others  func(c *Caller, method string, params json.RawMessage)
	about   func(*Caller, mcp.Implementation, string) (mcp.Implementation, string)
	prepare func(context.Context, *Caller)
	onOpen  []func(*Caller)
	onStop  []func()
	resume  func(ctx context.Context, mark string) (begin func(context.Context, *Caller), err error)
}

type methodKey struct {
	era  Era
	name string
}

// builtin are the methods that rpc serves itself.
var builtin = []methodKey{
	{Handshake, "initialize"},
	{Handshake, "notifications/initialized"},
	{Handshake, "notifications/cancelled"},
	{Handshake, "ping"},
	{Stateless, "notifications/cancelled"},
	{Stateless, "server/discover"},
}

// NewServer makes a server that serves initialize, ping and cancellation, and nothing else yet.
func NewServer(o *Options) *Server {
	s := &Server{methods: map[methodKey]Handler{}}
	if o != nil {
		s.opt = *o
	}
	s.opt.MaxLine = cmp.Or(s.opt.MaxLine, DefaultMaxLine)
	s.opt.MaxInFlight = cmp.Or(s.opt.MaxInFlight, DefaultMaxInFlight)
	s.opt.Drain = cmp.Or(s.opt.Drain, DefaultDrain)
	return s
}

// Handle registers the handler of a method in one era; call it once for each era that has the method. A
// method without a handler is answered with -32601.
func (s *Server) Handle(era Era, method string, h Handler) {
	k := methodKey{era, method}
	if s.methods[k] != nil || slices.Contains(builtin, k) {
		panic("internal error: method registered twice: " + era.String() + " " + method)
	}
	s.methods[k] = h
}

// Declare adds to the capabilities that initialize and server/discover announce: each room declares what it
// registers. f gets the caller and declares only what the negotiated version knows.
func (s *Server) Declare(f func(c *Caller, caps *mcp.ServerCapabilities)) {
	s.declare = append(s.declare, f)
}

// HandleOthers registers what answers the requests and takes the notifications whose methods are in no era's
// table, such as another server that knows them. The reader calls notification, so it must not wait.
func (s *Server) HandleOthers(request func(ctx context.Context, c *Caller, method string,
	params json.RawMessage) (any, error),
	notification func(c *Caller, method string, params json.RawMessage)) {
	s.other, s.others = request, notification
}

// knows reports whether a method is in some era's table.
func (s *Server) knows(method string) bool {
	for _, era := range []Era{Handshake, Stateless} {
		if k := (methodKey{era, method}); s.methods[k] != nil || slices.Contains(builtin, k) {
			return true
		}
	}
	return false
}

// Introduce lets f replace the Info and Instructions of Options each time they are sent to a client. It is
// called before the functions of Declare, and must not wait.
func (s *Server) Introduce(f func(c *Caller, info mcp.Implementation,
	instructions string) (mcp.Implementation, string)) {
	s.about = f
}

// Prepare registers a function that must return before initialize and server/discover are answered, such as
// one that waits for another server's capabilities. Other requests do not wait for it.
func (s *Server) Prepare(f func(ctx context.Context, c *Caller)) { s.prepare = f }

// introduction returns the server's info and instructions.
func (s *Server) introduction(c *Caller) (info mcp.Implementation, instructions string) {
	info, instructions = s.opt.Info, s.opt.Instructions
	if s.about != nil {
		info, instructions = s.about(c, info, instructions)
	}
	info.Name = cmp.Or(info.Name, "runnel")
	return info.For(c.Version), instructions
}

// OnDrain registers a function that EOF waits for if Options.Drain is negative, such as one that waits for
// running tasks. f returns when it is done or ctx ends.
func (s *Server) OnDrain(f func(ctx context.Context)) { s.onDrain = append(s.onDrain, f) }

// OnStop registers a function that ends work after the handlers have ended, such as tasks; their last
// messages are still written. f returns when the work has ended.
func (s *Server) OnStop(f func()) { s.onStop = append(s.onStop, f) }

// OnSession registers a function that runs when initialize has opened a session. Its Caller belongs to no
// request, so it may only notify. f must not block.
func (s *Server) OnSession(f func(c *Caller)) { s.onOpen = append(s.onOpen, f) }

// Methods lists every method that is served, as "era method", sorted.
func (s *Server) Methods() []string {
	var list []string
	for k := range s.methods {
		list = append(list, k.era.String()+" "+k.name)
	}
	for _, k := range builtin {
		list = append(list, k.era.String()+" "+k.name)
	}
	slices.Sort(list)
	return list
}

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
