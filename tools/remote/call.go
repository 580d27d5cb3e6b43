package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"runnel/partials/tracker"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

const (
	// defaultPoll is how often a task is asked for that does not tell how often it may be.
	defaultPoll = 2 * time.Second
	leastPoll   = 100 * time.Millisecond
	// cancelGrace is how long a call may take to end when it has been cancelled: longer than the 5 s that a command gets
	// between TERM and KILL.
	cancelGrace = 8 * time.Second
	// MaxAsking is how many questions of a server of the stateless era are put at once in one call, as many as rpc.Client lets one of
	// the handshake era put.
	MaxAsking = 64
)

// Call is one call of a tool of another server, made and followed to its end in whatever era and dialect that server
// speaks: plainly or as a task, with partials in any spelling, questions and a cancel.
//
// Goroutines: Run's own; the client's reader, which hands over what comes. While Run lasts: one that fetches what a stream
// lacks, one that holds the subscription of a task of the stateless era, one for each question of such a task, one that waits
// for the result of a task that asks.
type Call struct {
	o       Options
	tracker *tracker.Tracker

	// Set by Run.
	client *rpc.Client
	tool   string
	all    context.Context // of the background: ends with the call, and with the connection

	cutShort atomic.Bool // the server has handed the call over

	background sync.WaitGroup
	changed    chan struct{}      // capacity 1: something about the call has come
	fetches    chan int64         // capacity 1: what the tracker wants fetched, one at a time
	ranges     chan int64         // capacity 1, likewise
	early      chan resultOrError // capacity 1: the answer to awaitResult

	mu       sync.Mutex
	ended    bool            // nothing more may be started in the background
	awaits   bool            // the result has been asked for
	spoken   bool            // a notification has come since the last poll
	answered map[string]bool // questions of a stateless task, by key
	asking   int             // of them have no answer yet
}

// resultOrError is the answer to tasks/result.
type resultOrError struct {
	result json.RawMessage
	err    error
}

// Options say who wants to hear what of a call. All functions but Ask are called where something comes: on the goroutine that
// reads the connection, on Run's and on those beside it. Content and Gap are called one at a time, in order. None may wait for the server.
type Options struct {
	Token json.RawMessage // of the call, for its progress and its partials; one of its own on the connection

	Whole bool // the result is wanted whole: no partials that it then leaves out (PR #383)

	Content func(items []json.RawMessage, replaces bool) // see tracker.Options
	Gap     func(tracker.Gap)                            // likewise
	Status  func(status mcp.TaskStatus, message string)  // of a task that has not ended; nil = nobody wants it
	Cancel  func()                                       // the server is about to be told; nil = nobody wants it
	// Ask puts a question, the params of elicitation/create, to the user. An error of a call that was answered with the
	// question is the call's; one of a task's question cancels the question.
	Ask func(ctx context.Context, params json.RawMessage) (mcp.ElicitResult, error)
	// AskOther puts any other request of a server of the stateless era, such as sampling/createMessage; nil = none can be.
	AskOther func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	Log      zerolog.Logger
}

// Params is what is called, and how.
type Params struct {
	Tool      string
	Arguments json.RawMessage // an object
	// Task augments the call with a task (2025-11-25 only); nil = it is made plainly, and in the stateless era the server decides.
	Task *mcp.TaskMetadata
	// Of the stateless era: the capabilities of the client for this call, nil = those of the connection; and the level from
	// which on the server may send log lines with it, "" = it sends none.
	Capabilities *mcp.ClientCapabilities
	LogLevel     string
}

// Capabilities are those of a client that follows its calls with Remote. asks: it answers questions.
func Capabilities(asks bool) mcp.ClientCapabilities {
	c := mcp.ClientCapabilities{
		Tasks: &mcp.ClientTasks{
			Streaming: &mcp.TaskStreaming{Partial: &mcp.Present{}},
			Responses: &mcp.TaskResponses{Modes: []mcp.ResponseMode{mcp.ModeImmediate, mcp.ModeStreaming, mcp.ModeTask}},
		},
		PartialResults: &mcp.Present{},
		Extensions:     map[string]any{mcp.ExtensionTasks: struct{}{}, mcp.ExtensionTaskPartials: struct{}{}},
	}
	if asks {
		c.Elicitation = &mcp.ElicitationCapability{}
	}
	return c
}

// TakesTask reports whether a client may augment calls of a tool with a task, which is so in 2025-11-25 only.
func TakesTask(client *rpc.Client, tool *mcp.Tool) bool {
	tasks := client.Capabilities().Tasks
	return client.Version().Tasks && tasks != nil && tasks.Requests != nil &&
		tool.Execution != nil && (tool.Execution.TaskSupport == mcp.TaskOptional || tool.Execution.TaskSupport == mcp.TaskRequired)
}

// New makes what follows a call that is about to be made.
func New(o Options) *Call {
	r := &Call{o: o, changed: make(chan struct{}, 1), fetches: make(chan int64, 1), ranges: make(chan int64, 1), early: make(chan resultOrError, 1), answered: map[string]bool{}}
	r.tracker = tracker.New(tracker.Options{
		Token:   o.Token,
		Content: o.Content,
		Gap:     o.Gap,
		Fetch:   func(last int64) { r.fetches <- last },

		FetchRange: func(after int64) { r.ranges <- after },
	})
	return r
}

// Tracker is the tracker of the call's output.
func (r *Call) Tracker() *tracker.Tracker { return r.tracker }

// Notification takes a notification of the server's, in the order on the wire. It reports whether it belongs to the call.
func (r *Call) Notification(method string, params json.RawMessage) bool {
	mine := r.tracker.Notification(method, params)
	if mine {
		r.mu.Lock()
		r.spoken = true
		r.mu.Unlock()
	}
	if mine && (method == "notifications/tasks/status" || method == "notifications/tasks") {
		var t mcp.DetailedTask
		_ = rawjson.Unmarshal(params, &t) // what is of the wrong type reads as absent
		r.status(&t)
		r.wake()
	}
	return mine
}

func (r *Call) wake() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// status looks at what a task says of itself.
func (r *Call) status(t *mcp.DetailedTask) {
	if r.o.Status != nil && !t.Status.Terminal() {
		r.o.Status(t.Status, t.StatusMessage)
	}
	if t.Status == mcp.TaskInputRequired && r.client.Era() == rpc.Handshake {
		r.awaitResult(t.TaskID)
	}
	r.questions(t.TaskID, t.InputRequests)
}

// awaitResult asks for the result of a task that has not ended: "When the requestor encounters the input_required status, it
// SHOULD preemptively call tasks/result", since some servers ask only then (2025-11-25 tasks, "Input Required Status").
func (r *Call) awaitResult(taskID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.awaits || r.ended {
		return
	}
	r.awaits = true
	r.background.Go(func() {
		var end resultOrError
		end.err = r.client.Call(r.all, "tasks/result", mcp.TaskParams{TaskID: taskID}, &end.result)
		r.early <- end
	})
}

// questions answers those of a task of the stateless era, each once. What is too much at once comes again with the next state.
func (r *Call) questions(taskID string, open map[string]mcp.InputRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, q := range open {
		if r.answered[key] || r.ended || r.asking == MaxAsking || !r.canPut(q) {
			continue
		}
		r.answered[key] = true
		r.asking++
		r.background.Go(func() {
			defer func() {
				r.mu.Lock()
				r.asking--
				r.mu.Unlock()
			}()
			response, err := r.put(r.all, q)
			if err != nil && q.Method == "elicitation/create" {
				response, err = rawjson.Encode(mcp.ElicitResult{Action: mcp.ElicitCancel}), nil
			}
			if err == nil {
				err = r.client.Call(r.all, "tasks/update", mcp.UpdateTaskParams{TaskID: taskID, InputResponses: map[string]json.RawMessage{key: response}}, nil)
			}
			if err != nil && r.all.Err() == nil {
				r.o.Log.Warn().Err(err).Str("tool", r.tool).Msg("answering a question")
			}
		})
	}
}

// Run makes the call and returns its result as it came. When ctx ends, it cancels the call, waits 8 s at most for its end, and
// returns the cause of ctx. Errors of the server are of type *rpc.Error; a connection that is lost gives one that wraps
// [rpc.ErrClosed]. When it returns, all of the output has been handed over. It is called once.
func (r *Call) Run(ctx context.Context, client *rpc.Client, call *Params) (json.RawMessage, error) {
	r.client, r.tool = client, call.Tool
	var stop context.CancelFunc
	r.all, stop = context.WithCancel(client.Context())
	r.background.Go(r.resume)
	result, err := r.result(ctx, call)
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	stop()
	r.background.Wait()
	switch {
	case err == nil:
	case errors.Is(err, rpc.ErrClosed):
		r.tracker.Finish(tracker.Lost, err.Error())
	case ctx.Err() != nil:
		r.tracker.Finish(tracker.Cancelled, err.Error())
	default:
		r.tracker.Finish(tracker.Failed, err.Error())
	}
	r.tracker.Flush()
	return result, err
}

// result makes the call and returns its result, however it comes.
func (r *Call) result(ctx context.Context, call *Params) (json.RawMessage, error) {
	meta := map[string]any{"progressToken": r.o.Token}
	params := map[string]any{"name": call.Tool, "arguments": call.Arguments, "_meta": meta}
	switch {
	case call.Task != nil:
		params["task"] = call.Task
	case r.client.Era() == rpc.Stateless:
		meta["partialResultToken"] = r.o.Token
		if call.LogLevel != "" {
			meta[mcp.MetaLogLevel] = call.LogLevel
		}
	case !r.o.Whole:
		meta["partialResults"] = true
	}
	for pause := leastPoll; ; pause = min(2*pause, defaultPoll) {
		first := make(chan tracker.Answer, 1) // of several responses
		raw, err := r.client.Do(ctx, &rpc.Request{Method: "tools/call", Params: params, Capabilities: call.Capabilities, Until: r.all, OnResponse: func(response rpc.Response) bool {
			if response.Err != nil {
				r.tracker.Finish(tracker.Failed, response.Err.Message)
				return false
			}
			kind := tracker.AnswerHandle
			if id := r.handedOver(response.Result); id != "" {
				r.cutShort.Store(true)
				r.tracker.Handle(id)
			} else {
				kind = r.tracker.Response(response.Result)
			}
			select {
			case first <- kind:
			default:
			}
			r.wake()
			return kind == tracker.AnswerSegments || kind == tracker.AnswerHandle && call.Task != nil && call.Task.ResponseModes != nil
		}})
		if err != nil {
			return nil, err
		}
		switch <-first {
		case tracker.AnswerQuestion:
			if err := r.answerAll(ctx, raw, params, pause); err != nil {
				return nil, err
			}
			continue
		case tracker.AnswerResult:
			return raw, nil
		}
		return r.follow(ctx, call)
	}
}

// canPut reports whether a request of the server's can be put to anybody.
func (r *Call) canPut(q mcp.InputRequest) bool {
	return q.Method == "elicitation/create" || r.o.AskOther != nil
}

// put puts it.
//
// A panic fails the question: this is no goroutine of the call's work, and would end the process.
func (r *Call) put(ctx context.Context, q mcp.InputRequest) (answer json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.o.Log.Error().Str("tool", r.tool).Str("panic", fmt.Sprint(p)).Bytes("stack", debug.Stack()).Msg("putting a question panicked")
			answer, err = nil, rpc.Errorf(mcp.CodeInternalError, "internal error")
		}
	}()
	if q.Method == "elicitation/create" && (r.o.AskOther == nil || rawjson.StringMember(q.Params, "mode") != "url") {
		answer, err := r.o.Ask(ctx, q.Params)
		return rawjson.Encode(answer), err
	}
	return r.o.AskOther(ctx, q.Method, q.Params)
}

// CutShort reports whether the server has stopped sending the output before its end: what comes after that is in the result only.
func (r *Call) CutShort() bool { return r.cutShort.Load() }

// handedOver is the task to which a runnel has handed over a plain call that took too long, "" if it has not, or if the task cannot
// be followed: the tasks methods are not there.
func (r *Call) handedOver(result json.RawMessage) string {
	var m struct {
		Meta struct {
			Task struct {
				TaskID string         `json:"taskId"`
				Status mcp.TaskStatus `json:"status"`
			} `json:"runnel/task"`
			Related mcp.RelatedTask `json:"io.modelcontextprotocol/related-task"` // which a tool that tells of a task does not have
		} `json:"_meta"`
	}
	_ = json.Unmarshal(result, &m) // what is of the wrong type reads as absent
	if v := r.client.Version(); !v.Tasks && !v.Stateless || m.Meta.Task.Status != mcp.TaskWorking || m.Meta.Task.TaskID != m.Meta.Related.TaskID {
		return ""
	}
	return m.Meta.Task.TaskID
}

// answerAll answers what a call was answered with: questions (basic/patterns/mrtr). params is then the call to send again. An
// answer without questions is how a server asks for that alone; it "MAY" be done "immediately", but a server that goes on so
// would be called in a loop: there is a pause then.
func (r *Call) answerAll(ctx context.Context, raw json.RawMessage, params map[string]any, pause time.Duration) error {
	var required mcp.InputRequiredResult
	if err := json.Unmarshal(raw, &required); err != nil {
		return fmt.Errorf("reading the questions: %w", err)
	}
	if n := len(required.InputRequests); n > MaxAsking {
		return fmt.Errorf("the server asks %d questions at once: the limit is %d", n, MaxAsking)
	}
	for _, q := range required.InputRequests { // before anything is asked for nothing
		if !r.canPut(q) {
			return fmt.Errorf("the server asks for %.100q, which cannot be given", q.Method)
		}
	}
	var asked sync.WaitGroup
	var mu sync.Mutex
	var failed error
	responses := map[string]any{}
	for key, q := range required.InputRequests {
		asked.Go(func() {
			answer, err := r.put(ctx, q)
			mu.Lock()
			defer mu.Unlock()
			if responses[key] = answer; err != nil {
				failed = err
			}
		})
	}
	asked.Wait()
	if len(required.InputRequests) == 0 {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		case <-r.client.Done():
		}
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case failed != nil:
		return failed
	}
	// What the server has not given this time is left out: a client must not make up a requestState.
	delete(params, "inputResponses")
	if len(responses) > 0 {
		params["inputResponses"] = responses
	}
	delete(params, "requestState")
	if required.RequestState != "" {
		params["requestState"] = required.RequestState
	}
	return nil
}
