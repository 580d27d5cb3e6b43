package tools

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks/feed"
	"runnel/tasks/logs"
)

// ServeOptions say how calls are answered and how their output is delivered. Zero is a default only for
// FallbackTools and MaxResult; zero durations mean what their comments say.
type ServeOptions struct {
	Deliver             partials.DeliverOptions
	SyncWait            time.Duration         // when an unfinished plain call is handed over; 0 = never
	ImmediateWait       time.Duration         // how long a call may take before it is answered with a handle, if the client lets the server choose
	Heartbeat           time.Duration         // the longest silence towards a client that asked for progress; 0 = no heartbeat
	FallbackTools       string                // auto, always, never; "" = auto
	MaxResult           int                   // how much text of a result a model is shown; 0 = text.DefaultMaxResult
	RequiredFallthrough bool                  // a tool that requires a task also runs without one
	Resumable           bool                  // tasks and their delivery outlive this process
	Detach              func(*Detached) error // starts the process that continues a call; nil = nothing outlives this process
	Log                 zerolog.Logger

	// ByClient says which values are not set: what is known about the client wins over them.
	ByClient ByClient

	App    *App                            // nil = none
	Listed func(client mcp.Implementation) // is called when a client lists the tools; nil = nothing is
	Source Source                          // nil = all tools are known from the start
	Others logs.Others                     // nil = the only resources are logs
}

// feed returns how output is delivered.
func (o *ServeOptions) feed() feed.Options {
	return feed.Options{Deliver: o.Deliver, Heartbeat: o.Heartbeat}
}

// ByClient names values of ServeOptions that depend on the client, where package clients knows it.
type ByClient struct{ SyncWait, ImmediateWait, MaxResult bool }

// App is a page that clients show beside a call (MCP Apps), with the tools that only the page calls.
type App struct {
	Page  logs.Page
	Tools []Tool
}

// Source adds tools to the registry that are not known from the start, such as those of other servers.
type Source interface {
	// Need waits for some time until the tools that c may see have joined.
	Need(ctx context.Context, c *rpc.Caller)
	// NeedTool is Need for a tool name that is not in the registry.
	NeedTool(ctx context.Context, c *rpc.Caller, name string)
	// Whole reports whether all of its tools have joined.
	Whole() bool
}

// noSource joins nothing.
type noSource struct{}

func (noSource) Need(context.Context, *rpc.Caller)             {}
func (noSource) NeedTool(context.Context, *rpc.Caller, string) {}
func (noSource) Whole() bool                                   { return true }
