package remote

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/signal"
	"runnel/partials/tracker"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// Call is one call of a tool of another server. It is followed to its end in any era and dialect: plainly or
// as a task, with partials in any spelling, with questions, and with cancellation.
type Call struct {
	o       Options
	tracker *tracker.Tracker
	changed signal.Wake        // a message about the call has come
	early   chan resultOrError // capacity 1: the answer to awaitResult
	awaits  sync.Once

	// Set when the call is made.
	client *rpc.Client
	tool   string
	all    context.Context // ends with the call, and with the connection

	background sync.WaitGroup // goroutines beside Run; they end with the call
	spoken     atomic.Bool    // a notification has come since the last poll
	cutShort   atomic.Bool    // the server has handed the call over to a task

	mu       sync.Mutex
	ended    bool            // nothing more may start in the background
	answered map[string]bool // questions of a task, by key
	open     int             // how many of them are still unanswered
}

const (
	// defaultPoll is how often a task is polled if the server does not say.
	defaultPoll = 2 * time.Second
	leastPoll   = 100 * time.Millisecond
	// cancelGrace is how long a cancelled call may take to end: longer than the 5 s that a command gets
	// between TERM and KILL.
	cancelGrace = 8 * time.Second
	// fetchTime is how long a server may take to answer a fetch of missing output before patience asks
	// something else.
	fetchTime = 30 * time.Second
)

// resultOrError is the answer to tasks/result.
type resultOrError struct {
	result json.RawMessage
	err    error
}

// Tracker returns the tracker of the call's output, to compare the output with the result.
func (c *Call) Tracker() *tracker.Tracker { return c.tracker }

// CutShort reports whether the server has stopped sending output before the end: the rest is in the result
// only.
func (c *Call) CutShort() bool { return c.cutShort.Load() }

// start runs f in the background, unless the call has ended.
func (c *Call) start(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.background.Go(f)
	}
}

// end stops everything in the background and waits for it.
func (c *Call) end(stop func()) {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	stop()
	c.background.Wait()
}

// New prepares a call; Run makes it.
func New(o Options) *Call {
	c := &Call{o: o, changed: signal.NewWake(), early: make(chan resultOrError, 1),
		answered: map[string]bool{}}
	c.tracker = tracker.New(tracker.Options{
		Token:    o.Token,
		Content:  o.Content,
		Gap:      o.Gap,
		Missing:  c.changed.Send,
		NoErrors: o.NoErrors,
	})
	return c
}

// Notification takes a notification of the server, in the order on the wire. It reports whether the
// notification belongs to the call.
func (c *Call) Notification(method string, params json.RawMessage) bool {
	if !c.tracker.Notification(method, params) {
		return false
	}
	c.spoken.Store(true)
	if method == "notifications/tasks/status" || method == "notifications/tasks" {
		var t mcp.DetailedTask
		_ = rawjson.Unmarshal(params, &t) // a member of the wrong type reads as absent
		c.state(&t)
		c.changed.Send()
	}
	return true
}

// Run makes the call and returns its result as it came. When ctx ends, it cancels the call, waits at most 8 s
// for its end, and returns the cause of ctx. Errors of the server are of type *rpc.Error; a connection that
// is lost gives one that wraps [rpc.ErrClosed]. When it returns, all of the output has been handed over. It
// is called once.
func (c *Call) Run(ctx context.Context, client *rpc.Client, call *Params) (json.RawMessage, error) {
	c.client, c.tool = client, call.Tool
	var stop context.CancelFunc
	c.all, stop = context.WithCancel(client.Context())
	result, err := c.run(ctx, call)
	c.end(stop)
	switch {
	case err == nil:
	case errors.Is(err, rpc.ErrClosed):
		c.tracker.Finish(tracker.Lost, err.Error())
	case ctx.Err() != nil:
		c.tracker.Finish(tracker.Cancelled, err.Error())
	default:
		c.tracker.Finish(tracker.Failed, err.Error())
	}
	c.tracker.Flush()
	return result, err
}

// run makes the call and returns its result, from the response or from a task.
func (c *Call) run(ctx context.Context, call *Params) (json.RawMessage, error) {
	var kind tracker.Answer
	raw, err := Rounds(ctx, c.params(call), func(params json.RawMessage) (raw json.RawMessage, asks bool,
		err error) {
		raw, kind, err = c.send(ctx, call, params)
		return raw, kind == tracker.AnswerQuestion, err
	}, c.canPut, c.put)
	if err != nil || kind == tracker.AnswerResult {
		return raw, err
	}
	if c.o.Task != nil {
		c.o.Task(c.tracker.TaskID())
	}
	if err := c.await(ctx, call.Capabilities); err != nil {
		return nil, err
	}
	return c.result(ctx)
}

// params returns the params of the request.
func (c *Call) params(call *Params) json.RawMessage {
	params, meta := call.Base, json.RawMessage(rawjson.Member(call.Base, "_meta"))
	if params == nil {
		params = rawjson.WithMember(nil, "arguments", call.Arguments)
	}
	meta = rawjson.WithMember(meta, "progressToken", c.o.Token)
	switch {
	case call.Task != nil:
		params = rawjson.WithMember(params, "task", call.Task)
	case c.client.Era() == rpc.Stateless:
		meta = rawjson.WithMember(meta, "partialResultToken", c.o.Token)
		if call.LogLevel != "" {
			meta = rawjson.WithMember(meta, mcp.MetaLogLevel, call.LogLevel)
		}
	case !c.o.Whole:
		meta = rawjson.WithMember(meta, "partialResults", true)
	}
	return rawjson.WithMember(rawjson.WithMember(params, "name", call.Tool), "_meta", meta)
}

// send sends the request and returns its first response.
func (c *Call) send(ctx context.Context, call *Params,
	params json.RawMessage) (raw json.RawMessage, kind tracker.Answer, err error) {
	first := make(chan tracker.Answer, 1) // the kind of the first response
	raw, err = c.client.Do(ctx, &rpc.Request{Method: "tools/call", Params: params,
		Capabilities: call.Capabilities, Until: c.all, OnResponse: func(response rpc.Response) bool {
			if response.Err != nil {
				c.tracker.Finish(tracker.Failed, response.Err.Message)
				return false
			}
			kind := tracker.AnswerHandle
			if id := HandedOver(response.Result); id != "" &&
				(c.client.Version().Tasks || c.client.Version().Stateless) {
				c.cutShort.Store(true)
				c.tracker.Handle(id)
			} else {
				kind = c.tracker.Response(response.Result)
			}
			select {
			case first <- kind:
			default:
			}
			c.changed.Send()
			return kind == tracker.AnswerSegments ||
				kind == tracker.AnswerHandle && call.Task != nil && call.Task.ResponseModes != nil
		}})
	if err == nil {
		kind = <-first
	}
	return raw, kind, err
}

// HandedOver returns the task to which a runnel has handed over a plain call that took too long, "" if it has
// not.
func HandedOver(result json.RawMessage) string {
	meta := rawjson.Member(result, "_meta")
	task := rawjson.Member(meta, mcp.MetaTask)
	related := rawjson.Member(meta, mcp.MetaRelatedTask) // a tool that reports on a task does not have it
	id := rawjson.StringMember(task, "taskId")
	if rawjson.StringMember(task, "status") != string(mcp.TaskWorking) ||
		id != rawjson.StringMember(related, "taskId") {
		return ""
	}
	return id
}

// Options receive the events of a call. All functions except Request are called where an event comes: on the
// goroutine that reads the connection, on Run's and on those beside it. Content and Gap are called one at a
// time, in order. None may wait for the server.
type Options struct {
	Token json.RawMessage // for the call's progress and partials; unique on the connection

	Whole    bool // the result must be complete: no partials that it would then leave out (PR #383)
	NoErrors bool // see tracker.Options

	Content func(items []json.RawMessage, replaces bool) // see tracker.Options
	Gap     func(tracker.Gap)                            // likewise
	Task    func(id string)                              // called if the call has become a task; may be nil
	// Called with the status messages of a working task; nil = not called.
	Status func(message string)
	// Request answers a request of a server of the stateless era: elicitation/create and, with Others, any
	// other, such as sampling/createMessage. If the question came as the answer to the call, an error fails
	// the call; an error for a task's question cancels the question.
	Request func(ctx context.Context, method string, params json.RawMessage) (any, error)
	Others  bool
	Log     zerolog.Logger
}

// Params are the tool to call, and how.
type Params struct {
	Tool      string
	Arguments json.RawMessage // an object
	// Task augments the call with a task (2025-11-25 only); nil = a plain call, which in the stateless era
	// the server may make a task.
	Task *mcp.TaskMetadata
	// In the stateless era: the client's capabilities for this call, nil = those of the connection; and the
	// lowest level of log lines that the server may send with it, "" = none.
	Capabilities any
	LogLevel     string
	// Base are the params of another request for the same, whose members are sent, too; nil = none. Arguments
	// then stands in it.
	Base json.RawMessage
}

// Capabilities returns the capabilities of a client that uses Call. asks: it answers questions.
func Capabilities(asks bool) mcp.ClientCapabilities {
	c := mcp.ClientCapabilities{
		Tasks: &mcp.ClientTasks{
			Streaming: &mcp.TaskStreaming{Partial: &mcp.Present{}},
			Responses: &mcp.TaskResponses{Modes: []mcp.ResponseMode{mcp.ModeImmediate, mcp.ModeStreaming,
				mcp.ModeTask}},
		},
		PartialResults: &mcp.Present{},
		Extensions:     map[string]any{mcp.ExtensionTasks: struct{}{}, mcp.ExtensionTaskPartials: struct{}{}},
	}
	if asks {
		c.Elicitation = &mcp.ElicitationCapability{}
	}
	return c
}

// TakesTask reports whether a client may augment calls of a tool with a task, which only 2025-11-25 has.
func TakesTask(client *rpc.Client, tool *mcp.Tool) bool {
	tasks := client.Capabilities().Tasks
	return client.Version().Tasks && tasks != nil && tasks.Requests != nil &&
		tool.Execution != nil && (tool.Execution.TaskSupport == mcp.TaskOptional ||
		tool.Execution.TaskSupport == mcp.TaskRequired)
}
