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

// Era is the kind of protocol a request speaks. It is decided once, when the request is admitted;
// after that code asks what the caller can do.
type Era uint8

// The eras of MCP.
const (
	Handshake Era = iota + 1 // 2024-11-05 to 2025-11-25: initialize opens a session
	Stateless                // 2026-07-28: every request brings version and capabilities in its _meta
)

// String is for logs and errors.
func (e Era) String() string { return [...]string{Handshake: "handshake", Stateless: "stateless"}[e] }

// Options of a server. The zero value works, and so does nil.
type Options struct {
	Info         mcp.Implementation
	Instructions string
	MaxLine      int           // bytes of the longest incoming line; 0 = DefaultMaxLine
	MaxInFlight  int           // requests being answered at once; 0 = DefaultMaxInFlight
	Drain        time.Duration // after EOF, how long requests in flight may go on; 0 = DefaultDrain, negative = until they are done
	Log          zerolog.Logger
}

// Defaults of [Options], for whoever has a default of their own to name, as a config file has: the same.
const (
	DefaultMaxLine     = 16 << 20
	DefaultMaxInFlight = 256
	DefaultDrain       = 2 * time.Second // a call that is about to finish does; a host does not wait long after it closed the pipe
)

// Handler answers a request. It runs in a goroutine of its own; its result is encoded as JSON.
// ctx ends when the client cancels the request (cause [ErrCancelled]; nothing is sent then, whatever the handler returns),
// when the server stops (cause [ErrShutdown]), and at the latest when the request has been answered.
// params is what the client sent, nil if nothing; the handler may keep it.
type Handler func(ctx context.Context, c *Caller, params json.RawMessage) (any, error)

// Server holds the method table. Rooms register on it before its first client: the one of [Server.Serve], or those of [Server.NewSession].
type Server struct {
	opt     Options
	methods map[methodKey]Handler
	declare []func(*mcp.Version, *mcp.ServerCapabilities)
	onDrain []func(context.Context)
	notices map[string]func(*Caller, json.RawMessage)
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

// builtin are the methods that rpc itself serves.
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
	s := &Server{methods: map[methodKey]Handler{}, notices: map[string]func(*Caller, json.RawMessage){}}
	if o != nil {
		s.opt = *o
	}
	s.opt.MaxLine = cmp.Or(s.opt.MaxLine, DefaultMaxLine)
	s.opt.MaxInFlight = cmp.Or(s.opt.MaxInFlight, DefaultMaxInFlight)
	s.opt.Drain = cmp.Or(s.opt.Drain, DefaultDrain)
	return s
}

// Handle registers the handler of a method in an era, once for each era that has the method. A method without one is answered -32601.
func (s *Server) Handle(era Era, method string, h Handler) {
	k := methodKey{era, method}
	if s.methods[k] != nil || slices.Contains(builtin, k) {
		panic("internal error: method registered twice: " + era.String() + " " + method)
	}
	s.methods[k] = h
}

// Declare adds to the capabilities that initialize and server/discover announce: a room declares what it registers. f sees the version that
// was negotiated and declares only what it knows.
func (s *Server) Declare(f func(v *mcp.Version, caps *mcp.ServerCapabilities)) {
	s.declare = append(s.declare, f)
}

// HandleNotification registers who gets a notification of a session's client. f is called by the reader and must not wait.
func (s *Server) HandleNotification(method string, f func(c *Caller, params json.RawMessage)) {
	s.notices[method] = f
}

// Introduce lets f change what Options say of who the server is and how it is used, each time that a client is told, and before it is
// told the capabilities. f must not wait.
func (s *Server) Introduce(f func(c *Caller, info mcp.Implementation, instructions string) (mcp.Implementation, string)) {
	s.about = f
}

// Prepare adds something that initialize and server/discover wait for before they are answered, such as a server that has to say what
// it can do. Other requests do not wait.
func (s *Server) Prepare(f func(ctx context.Context, c *Caller)) { s.prepare = f }

// introduction is who the server is, and how it is used.
func (s *Server) introduction(c *Caller) (info mcp.Implementation, instructions string) {
	info, instructions = s.opt.Info, s.opt.Instructions
	if s.about != nil {
		info, instructions = s.about(c, info, instructions)
	}
	info.Name = cmp.Or(info.Name, "runnel")
	return info.For(c.Version), instructions
}

// OnDrain adds something that EOF waits for when Options.Drain is negative, such as tasks that still run.
// f returns when it is done or ctx ends.
func (s *Server) OnDrain(f func(ctx context.Context)) { s.onDrain = append(s.onDrain, f) }

// OnStop adds something that ends after the handlers, such as tasks: what it has to say of that is still written. f returns
// when it has ended.
func (s *Server) OnStop(f func()) { s.onStop = append(s.onStop, f) }

// OnSession adds something to do when initialize has opened a session. The Caller belongs to no request: it may
// only notify. f must not block.
func (s *Server) OnSession(f func(c *Caller)) { s.onOpen = append(s.onOpen, f) }

// Methods lists every method that is served, as "era method", sorted: for a test that holds the whole surface to a list.
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
