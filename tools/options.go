package tools

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"runnel/partials"
	"runnel/rpc"
	"runnel/tasks/logs"
)

// ServeOptions are how calls are answered and their output is delivered. Zero means what the config file's default is
// for FallbackTools only; the durations mean what they say.
type ServeOptions struct {
	Pump                partials.PumpOptions
	SyncWait            time.Duration         // when a plain call that is not finished is handed over; 0 = never
	ImmediateWait       time.Duration         // how long a call may take before its answer is a handle, where its client lets the server choose
	Heartbeat           time.Duration         // longest silence towards a client that asked for progress; 0 = no heartbeat
	FallbackTools       string                // auto, always, never; "" = auto
	MaxResult           int                   // how much of the output of a tool that is not a command get_task_result shows at once; 0 = text.DefaultMaxResult
	RequiredFallthrough bool                  // a tool that requires a task runs without one, too
	Resumable           bool                  // tasks outlive this process, and so does their delivery
	Detach              func(*Detached) error // starts the process that goes on with a call; nil = nothing outlives this process
	Log                 zerolog.Logger

	App    *App        // nil = there is none
	Source Source      // nil = all tools are known from the start
	Others logs.Others // nil = there are no resources but logs
}

// App is a page that clients show beside a call (MCP Apps), and the tools that only the page calls.
type App struct {
	Page  logs.Page
	Tools []Tool
}

// Source joins tools to the registry that are not known from the start, such as other servers'.
type Source interface {
	// Need waits, for a while, until the tools that c may see have joined.
	Need(ctx context.Context, c *rpc.Caller)
	// NeedTool is Need for a tool of a name that the registry does not have.
	NeedTool(ctx context.Context, name string)
	// Whole reports whether all of its tools have joined.
	Whole() bool
}

// noSource joins nothing.
type noSource struct{}

func (noSource) Need(context.Context, *rpc.Caller) {}
func (noSource) NeedTool(context.Context, string)  {}
func (noSource) Whole() bool                       { return true }
