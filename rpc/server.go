package rpc

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
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
