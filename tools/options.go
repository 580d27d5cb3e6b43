package tools

import (
	"cmp"
	"context"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/clients"
	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks/logs"
	"runnel/tools/text"
)

// ServeOptions say how calls are answered and how their output is delivered. Zero is a default only for
// FallbackTools and MaxResult; zero durations mean what their comments say.
type ServeOptions struct {
	Deliver  partials.DeliverOptions
	SyncWait time.Duration // when an unfinished plain call is handed over; 0 = never
	// How long a call may take before it is answered with a handle, if the client lets the server choose.
	ImmediateWait time.Duration
	// The longest silence towards a client that asked for progress; 0 = no heartbeat.
	Heartbeat     time.Duration
	FallbackTools string // auto, always, never; "" = auto
	// How much text of a result a model is shown; 0 = text.DefaultMaxResult.
	MaxResult           int
	RequiredFallthrough bool // a tool that requires a task also runs without one
	Resumable           bool // tasks and their delivery outlive this process
	// Starts the process that continues a call; nil = nothing outlives this process.
	Detach func(*Detached) error
	Log    zerolog.Logger

	// ByClient says which values are not set: what is known about the client wins over them.
	ByClient ByClient

	App    *App                            // nil = none
	Listed func(client mcp.Implementation) // is called when a client lists the tools; nil = nothing is
	Source Source                          // nil = all tools are known from the start
	Others logs.Others                     // nil = the only resources are logs
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
	// WhyMissing says what keeps a tool of this name out of the registry, "" if nothing does: there is none.
	WhyMissing(name string) string
	// Whole reports whether all of its tools have joined.
	Whole() bool
}

// noSource joins nothing.
type noSource struct{}

func (noSource) Need(context.Context, *rpc.Caller)             {}
func (noSource) NeedTool(context.Context, *rpc.Caller, string) {}
func (noSource) WhyMissing(string) string                      { return "" }
func (noSource) Whole() bool                                   { return true }

// known returns what is known about a client.
func known(c *rpc.Caller) clients.Client { return clients.Find(c.Client.Name, c.Client.Version) }

// maxHostName is how much of a host's name is kept, in bytes.
const maxHostName = 64

func (s *service) immediateWait(c *rpc.Caller) time.Duration {
	if wait := known(c).ImmediateWait; s.o.ByClient.ImmediateWait && wait > 0 {
		return wait
	}
	return s.o.ImmediateWait
}

// maxResult returns how much text of a result a client's model is shown, in bytes.
func (s *service) maxResult(c *rpc.Caller) int {
	if most := known(c).MaxResult; s.o.ByClient.MaxResult && most > 0 {
		return most
	}
	return cmp.Or(s.o.MaxResult, text.DefaultMaxResult)
}

// shows returns what a client shows its model of a result. In a supervisor or a worker the client is nil.
func (s *service) shows(c *rpc.Caller) (most, mostOfError int) {
	if c == nil {
		most, mostOfError = cmp.Or(s.taken.Client.MaxResult, text.DefaultMaxResult), s.taken.Client.MaxError
		if s.taken.Flattens && isDone(s.taken.Known) { // see MaxError
			mostOfError = most
		}
		return most, mostOfError
	}
	return s.maxResult(c), known(c).MaxError
}

// MaxResult returns how much text the result of the call may have, in bytes. own is the tool's own limit, 0
// if it has none.
func (c *Call) MaxResult(own int) int {
	if own > 0 || c.server == nil {
		return cmp.Or(own, text.DefaultMaxResult)
	}
	most, _ := c.server.shows(c.caller)
	return most
}

// MaxError is MaxResult for a call that has failed: some clients show less of an error than of another text.
// A task's error may reach the client as another text (tasks.Readable).
func (c *Call) MaxError(own int) int {
	most := c.MaxResult(own)
	if c.server == nil || c.caller != nil && known(c.caller).Flattens && c.run != nil && c.run.HasHandle() {
		return most
	}
	_, ofError := c.server.shows(c.caller)
	return min(most, cmp.Or(ofError, most))
}
