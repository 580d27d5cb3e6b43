package tools

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/rs/zerolog"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/files"
	"runnel/tasks/run"
	"runnel/tools/reading"
	"runnel/tools/secrets"
	"runnel/tools/text"
)

// Tool is something that a client can call. [Func] makes one from a Go function; implement Tool where the
// input schema is not known at compile time.
type Tool interface {
	// Describe returns the tool's entry in tools/list. It is called once, when the tool is added to a
	// Registry.
	Describe() mcp.Tool

	// Call runs the tool until it is done or ctx ends, and writes to out while it runs.
	//
	// An error of type *rpc.Error is sent as a JSON-RPC error. Any other error becomes a tool error:
	// a result with isError and the error's text, for the model to read (tools, "Error Handling").
	Call(ctx context.Context, in *Call, out *Output) (*mcp.CallToolResult, error)
}

// Kind is a Tool that tells the server more about itself than clients see.
type Kind interface {
	Tool

	// Traits is called once, when the tool is added to a Registry.
	Traits() Traits

	// Replace is called before the tool replaces the one with the same name, whose calls continue.
	Replace(before Tool)
}

// Traits are what a Kind says about itself. A Tool that is not a Kind has the zero value.
type Traits struct {
	Grace     time.Duration // how long a call may take to end after it is stopped
	Detached  bool          // a call runs in another process, and outlives this one
	MayDetach bool          // the same if Call.Outlives
	Confirms  bool          // a call may have to wait for its user before it starts
	// A call may go on after it is ready (Call.Ready): its task gets the longest ttl, unless its client asks
	// for one.
	Serves bool
	Relays bool // a call is another server's: its progress and its result pass as they are
	// The log of a call has a screen (terminal.Screen) of so many columns and rows; zero = it has none.
	Screen     [2]int
	TakesInput bool // a call reads Call.Input
	Repeatable bool // a call that was cut off may be made again
	Lasts      bool // its task gets the longest ttl, unless its client asks for one
	// How long a call may run; 0 = no limit. Unless its client asks for a ttl, its task is kept twice as
	// long.
	Longest time.Duration
	AtOnce  int  // how many calls run at once, the others wait; 0 = no limit
	bounded bool // a call ends soon: it is never handed over

	// This says how the output of a running call is shown: see text.Shaper.
	MaxResult  int // bytes; 0 = what suits the client
	KeepFrames bool
}

// Call is one call of a tool. A Tool gets one each time that it is called. Its methods ask the user, start
// other tools and pass the call on.
type Call struct {
	// Arguments is a JSON object that is valid for the tool's input schema. Defaults are not filled in.
	Arguments json.RawMessage

	// Params are the params of the request as the client wrote them; nil if the call was made in another way.
	// A Tool that passes the call on passes those that it does not know.
	Params json.RawMessage

	// TaskID is the id of the task that this call runs as.
	TaskID string

	// Confirmed: the user has already confirmed the call, in the process where it was made.
	Confirmed bool

	// Said is what the tool says about its result, in addition to the result itself. The tool may set it.
	Said Said

	// nil in a test
	run      *run.Run
	caller   *rpc.Caller
	audience *audience
	server   server
	outlives bool
}

// server is what a call needs from the service that received it. The client is nil in a supervisor or a
// worker.
type server interface {
	poller(c *rpc.Caller) string
	shows(c *rpc.Caller) (most, mostOfError int)
	detacher() func(*Detached) error
	detached() *Detached
	startFor(ctx context.Context, c *rpc.Caller, tool string, arguments json.RawMessage) (*run.Run, error)
	recentOf(ctx context.Context, c *rpc.Caller, tool string,
		arguments json.RawMessage) (id string, err error)
	makeChild(ctx context.Context, parent *Call, tool string, arguments json.RawMessage) (*Child, error)
	callable(ctx context.Context, c *rpc.Caller, tool string) (spec mcp.Tool, ok bool)
	repeatable(ctx context.Context, tool string) bool
	tasks() *run.Runner
	startable(tool string) (title string, ok bool)
	startables() (specs []mcp.Tool)
	log() *zerolog.Logger
}

// Log returns the log of the server, for what concerns who runs it and not the call's client. It is silent in
// a test.
func (c *Call) Log() *zerolog.Logger {
	if c.server == nil {
		return new(zerolog.Nop())
	}
	return c.server.log()
}

// Caller returns the client that made the call, nil in a test.
func (c *Call) Caller() *rpc.Caller { return c.caller }

// Said is what a tool says about its result. Set [Call].Said where the defaults do not fit.
type Said struct {
	// Status is the statusMessage that the task ends with, at most 2 KiB; hosts that see a task fail often
	// read nothing else. By default a failed task shows the beginning of its result's text.
	Status string

	// Truncated: the result does not show all of the output. A link to the task's log is added to it.
	Truncated bool

	// Passed: the result is that of another server. It passes as it is up to [mcp.MaxPassed].
	Passed bool

	// Rest, if not nil, are the only items of the result that do not repeat what was written to the Output. A
	// client that got the output as it came gets only these after it, and nothing twice.
	Rest *[]mcp.ContentBlock
}

// LeftOut returns the words for what the call's result leaves out, and makes the call's log readable before.
func (c *Call) LeftOut(ctx context.Context) func(text.Gap) string {
	return func(g text.Gap) string {
		if !c.keep(ctx) {
			return g.Words()
		}
		return reading.LeftOut(c.server.poller(c.caller), c.TaskID)(g)
	}
}

// Input waits for the next piece of input that a client sends to the call while it runs. It fails with io.EOF
// after the last one, and with the cause of ctx. Only a tool whose Traits say TakesInput gets any.
func (c *Call) Input(ctx context.Context) (tasks.Input, error) {
	if c.run == nil { // in a test
		return tasks.Input{}, io.EOF
	}
	c.run.OpenInput() // here and not sooner: a call that is handed to another process reads its input there
	return c.run.NextInput(ctx)
}

// polls reports whether the client's list has get_task_result.
func (c *Call) polls() bool { return c.server.poller(c.caller) != "" }

// Start starts a tool as a task, for the client of the call.
func (c *Call) Start(ctx context.Context, tool string, arguments json.RawMessage) (*run.Run, error) {
	return c.server.startFor(ctx, c.caller, tool, arguments)
}

// Recent returns the task of the client's latest call, of a given tool if tool is not "", and with equal
// arguments if arguments are given: a running one if there is one, otherwise one that has ended. A running
// plain call becomes a task that can be found. The id is "" if there is none.
func (c *Call) Recent(ctx context.Context, tool string, arguments json.RawMessage) (id string, err error) {
	return c.server.recentOf(ctx, c.caller, tool, arguments)
}

// Ready reports that the tool has done what its caller waits for and goes on, as a server that listens: line
// shows it, some time after the start of the tool. The call is answered then, with the output so far, and its
// task goes on. Only the first call counts.
func (c *Call) Ready(after time.Duration, line string) {
	if c.run != nil {
		c.run.Ready(after, line)
	}
}

// Match reports a line of the output that its caller should see, under a name. It is an event of the task:
// its status shows the line, and what reads the task next. limit is how many lines of that name are told;
// further ones are counted.
func (c *Call) Match(name, line string, limit int) {
	if c.run != nil {
		c.run.Match(name, line, limit)
	}
}

// AsksPassword reports what the tool's program asks a password with, and nil when it no longer does: the user
// is asked then, and what a model types is refused.
func (c *Call) AsksPassword(prompt *tasks.PasswordPrompt) {
	if c.run != nil {
		c.run.AsksPassword(prompt)
	}
}

// Outlives reports whether the call should continue without this process once it is a task, because its
// client will come back for it.
func (c *Call) Outlives() bool { return c.outlives }

// Startable returns the title of a tool, and reports whether Start can start it.
// A page that shows tasks uses it to offer to run one again.
func (c *Call) Startable(tool string) (title string, ok bool) { return c.server.startable(tool) }

// Startables returns the tools that Start can start.
// A page that shows tasks uses it to offer tools to run.
func (c *Call) Startables() (specs []mcp.Tool) { return c.server.startables() }

// Tally changes a value that the calls of the owner share over all processes of the state: see
// run.Runner.Tally.
func (c *Call) Tally(ctx context.Context, id string, change func(old []byte) ([]byte, error)) error {
	return c.run.Tally(ctx, id, change)
}

// Used reports what the call has taken of a language model, for metrics.
func (c *Call) Used(u run.Usage) {
	if c.run != nil {
		c.run.Used(u)
	}
}

// keep makes the call's log readable after the call has ended, and reports whether it is.
func (c *Call) keep(ctx context.Context) bool {
	return c.run != nil && c.run.Keep(context.WithoutCancel(ctx)) == nil
}

// KeepFiles returns a writer for up to limit bytes of files that the call has made, whose URIs are those of
// tasks.FileURI. The call's task is kept with them. Call it once, when the work is done.
func (c *Call) KeepFiles(ctx context.Context, limit int64) (*files.Writer, error) {
	if c.run == nil {
		return nil, errors.New("the call is no task")
	}
	return c.run.KeepFiles(context.WithoutCancel(ctx), limit)
}

// Variables returns the variables of the call's task, a JSON object.
func (c *Call) Variables() json.RawMessage {
	if c.run != nil {
		if own := tasks.OwnVariables(c.run.Task().Variables); own != nil {
			return own
		}
	}
	return json.RawMessage("{}")
}

// SetVariables merges an object into the variables of the call's task and returns them all; null deletes a
// key. It fails like [run.Run.SetVariables].
func (c *Call) SetVariables(ctx context.Context, patch json.RawMessage) (json.RawMessage, error) {
	if c.run == nil {
		return patch, nil
	}
	return c.run.SetVariables(ctx, patch)
}

// Detached is a call that continues in another process, its supervisor or a worker.
// ServeOptions.Detach gets it to start that process, which passes it to Take.
type Detached struct {
	TaskID    string
	Host      string          // the host of a worker, "" in a supervisor
	Confirmed bool            // the user has confirmed it
	Tool      json.RawMessage // makes the tool again there
	Arguments json.RawMessage
	Polls     bool            // the client's list has get_task_result
	Client    tasks.FarClient // what a worker can ask the client, and what the client shows
	Secrets   *secrets.Set    // what it must not show; nil = nothing. A worker has its own
	Flattens  bool            // the client does so with the errors of tasks (package clients)

	// Known is closed when the client knows the task. If the process that made the call ends before, or the
	// call (Ended), the supervisor ends, too.
	Known <-chan struct{} `json:"-"`
	Ended <-chan struct{} `json:"-"`

	Tools *Registry `json:"-"` // of the worker, for the calls that the call makes; nil = it can make none

	// These are set in a worker: how the call was offered, and what is closed when the worker takes no more
	// calls. A call that has not begun by then is offered again.
	Offer   tasks.Offer     `json:"-"`
	Leaving <-chan struct{} `json:"-"`
}
