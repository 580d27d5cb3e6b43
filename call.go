package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
)

const (
	// progressToken names the one call of a process.
	progressToken = `"runnel-call"`
	// defaultPoll is how often a task is asked for that does not tell how often it may be.
	defaultPoll = 2 * time.Second
	leastPoll   = 100 * time.Millisecond
	// cancelGrace is how long a call may take to end when it has been cancelled: longer than the 5 s that a command gets
	// between TERM and KILL.
	cancelGrace = 8 * time.Second
)

// Why a call is cancelled.
var (
	errInterrupted = errors.New("interrupted")
	errTimeout     = errors.New("timed out")
)

// call is one call of a tool.
//
// Goroutines: run's own; the client's reader, which hands what comes to the tracker; one that holds the subscription
// of a task of the stateless era; one that resumes a stream with a hole; one for each question.
type call struct {
	i       *invocation
	o       *callOptions
	view    *view
	tracker *partials.Tracker
	client  *rpc.Client
	asker   *asker

	capabilities mcp.ClientCapabilities
	name         string
	arguments    json.RawMessage
	began        time.Time
	background   sync.WaitGroup
	changed      chan struct{} // capacity 1: a notification of the task has come
	fetches      chan int64    // capacity 1: the tracker asks once at a time
	ranges       chan int64    // capacity 1, likewise

	mu     sync.Mutex
	first  time.Duration // when the first content came
	lost   error         // of stdout: nobody reads it
	failed context.CancelCauseFunc
	answer map[string]bool // questions of a stateless task that are being answered
}

func newCall(i *invocation, v *view, o *callOptions) *call {
	c := &call{i: i, o: o, view: v, changed: make(chan struct{}, 1), fetches: make(chan int64, 1), ranges: make(chan int64, 1), answer: map[string]bool{}}
	c.asker = &asker{stdin: i.stdin, view: v, yes: o.yes}
	c.capabilities = mcp.ClientCapabilities{
		Tasks: &mcp.ClientTasks{
			Streaming: &mcp.TaskStreaming{Partial: &mcp.Present{}},
			Responses: &mcp.TaskResponses{Modes: []mcp.ResponseMode{mcp.ModeImmediate, mcp.ModeStreaming, mcp.ModeTask}},
		},
		PartialResults: &mcp.Present{},
		Extensions:     map[string]any{mcp.ExtensionTasks: struct{}{}, mcp.ExtensionTaskPartials: struct{}{}},
	}
	if o.noTask {
		c.capabilities.Extensions = nil
	}
	if c.asks() {
		c.capabilities.Elicitation = &mcp.ElicitationCapability{}
	}
	c.tracker = partials.NewTracker(partials.TrackerOptions{
		Token:   json.RawMessage(progressToken),
		Content: c.content,
		Gap:     c.gap,
		Fetch:   func(last int64) { c.fetches <- last },

		FetchRange: func(after int64) { c.ranges <- after },
	})
	return c
}

// asks tells whether questions can be answered.
func (c *call) asks() bool {
	if c.o.askGiven && !c.o.yes {
		return c.o.ask
	}
	return c.o.yes || isTerminal(c.i.stdin)
}

// content shows what has come.
func (c *call) content(items []json.RawMessage, replaces bool) {
	c.mu.Lock()
	if c.first == 0 {
		c.first = time.Since(c.began)
	}
	c.mu.Unlock()
	if replaces {
		c.say("what follows replaces the output so far")
	}
	c.show(items)
}

// show writes content items to stdout, what a command wrote to stderr to stderr.
func (c *call) show(items []json.RawMessage) {
	for _, item := range items {
		text, stderr := itemText(item)
		switch {
		case c.o.output.word != "text":
			c.view.say(text)
		case stderr:
			_, _ = c.view.Write([]byte(text))
		default:
			c.written(c.view.content(text))
		}
	}
}

// itemText is a content item as a terminal shows it, and whether a command wrote it to stderr.
func itemText(item json.RawMessage) (text string, stderr bool) {
	var m struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		MimeType string `json:"mimeType"`
		URI      string `json:"uri"`
		Data     string `json:"data"`
		Meta     struct {
			Stream string `json:"runnel/stream"`
		} `json:"_meta"`
		Resource struct {
			URI  string `json:"uri"`
			Text string `json:"text"`
		} `json:"resource"`
	}
	_ = json.Unmarshal(item, &m) // what is of the wrong type reads as absent
	switch {
	case m.Type == "text":
		text = m.Text
	case m.Resource.Text != "":
		text = m.Resource.Text
	default:
		text = fmt.Sprintf("[%s]\n", strings.Join(strings.Fields(strings.Join([]string{m.Type, m.MimeType, m.URI, m.Resource.URI, size(m.Data)}, " ")), " "))
	}
	return text, m.Meta.Stream == "stderr"
}

func size(base64 string) string {
	if base64 == "" {
		return ""
	}
	return fmt.Sprintf("%d bytes", len(base64)/4*3-strings.Count(base64[max(len(base64)-2, 0):], "="))
}

// written ends the call when nobody reads its output any more, as head does.
func (c *call) written(err error) {
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost == nil {
		c.lost = err
		if c.failed != nil {
			c.failed(err)
		}
	}
}

func (c *call) gap(g partials.Gap) { c.say(g.String()) }

// say tells something on stderr.
func (c *call) say(text string) { c.i.say(zerolog.WarnLevel, "runnel: "+text) }

// message gets every message of the server's.
func (c *call) message(line []byte) {
	if c.o.output.word == "ndjson" {
		c.written(c.view.content(string(line) + "\n"))
	}
}

// notified gets the server's notifications, in their order.
func (c *call) notified(method string, params json.RawMessage) {
	mine := c.tracker.Notification(method, params)
	switch method {
	case "notifications/progress":
		var p struct {
			Token           json.RawMessage `json:"progressToken"`
			Progress, Total float64
			Message         string
		}
		if json.Unmarshal(params, &p) == nil && string(p.Token) == progressToken {
			c.view.progress(p.Progress, p.Total, p.Message)
		}
	case "notifications/tasks/status", "notifications/tasks":
		if !mine {
			return
		}
		var t mcp.DetailedTask
		_ = json.Unmarshal(params, &t)
		if t.Status == mcp.TaskWorking && t.StatusMessage != "" {
			c.view.say(t.StatusMessage)
		}
		c.questions(t.TaskID, t.InputRequests)
		select {
		case c.changed <- struct{}{}:
		default:
		}
	}
}

// request answers the server's requests: questions.
func (c *call) request(ctx context.Context, method string, params json.RawMessage) (any, error) {
	if method != "elicitation/create" {
		return nil, rpc.Errorf(mcp.CodeMethodNotFound, "method not found: %.100q", method)
	}
	return c.asker.ask(ctx, params), nil
}

// questions answers those of a task of the stateless era, each once.
func (c *call) questions(taskID string, open map[string]mcp.InputRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, q := range open {
		if c.answer[key] || q.Method != "elicitation/create" {
			continue
		}
		c.answer[key] = true
		c.background.Go(func() {
			ctx, cancel := c.connected(context.Background())
			defer cancel()
			response, err := json.Marshal(c.asker.ask(ctx, q.Params))
			if err == nil {
				err = c.client.Call(ctx, "tasks/update", mcp.UpdateTaskParams{TaskID: taskID, InputResponses: map[string]json.RawMessage{key: response}}, nil)
			}
			if err != nil && ctx.Err() == nil {
				c.say(fmt.Sprintf("answering the question: %v", err))
			}
		})
	}
}

// connected makes a context that ends with the connection, too.
func (c *call) connected(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	stop := make(chan struct{})
	go func() {
		select {
		case <-c.client.Done():
			cancel()
		case <-stop:
		}
	}()
	var once sync.Once
	return ctx, func() { once.Do(func() { close(stop) }); cancel() }
}

// run makes the call and shows it. ctx ends when the user wants no more of it.
func (c *call) run(ctx context.Context, tool *mcp.Tool, arguments json.RawMessage) error {
	c.name, c.arguments, c.began = tool.Name, arguments, time.Now()
	wanted, giveUp := context.WithCancelCause(context.Background())
	defer giveUp(nil)
	defer context.AfterFunc(ctx, func() { giveUp(errInterrupted) })()
	if c.o.timeout > 0 {
		defer time.AfterFunc(c.o.timeout, func() { giveUp(errTimeout) }).Stop()
	}
	c.mu.Lock()
	c.failed = giveUp
	c.mu.Unlock()

	all, stop := c.connected(context.Background()) // of what goes on beside the call
	c.background.Go(func() { c.resume(all) })
	result, err := c.result(wanted, tool)
	stop()
	c.background.Wait()
	c.tracker.Flush()
	if err == nil && !c.o.detach {
		err = c.finish(result)
	}
	c.view.end()
	c.summarize(result, err)
	switch cause := context.Cause(wanted); {
	case cause == errInterrupted:
		return exitError(exitInterrupted)
	case cause == errTimeout:
		return fmt.Errorf("timed out after %v", c.o.timeout)
	case cause != nil && !errors.Is(cause, syscall.EPIPE):
		return fmt.Errorf("writing the output: %w", cause)
	case errors.Is(cause, syscall.EPIPE): // head has seen enough
		return exitError(exitFailure)
	}
	return err
}

// result makes the call and returns its result, however it comes.
func (c *call) result(wanted context.Context, tool *mcp.Tool) (json.RawMessage, error) {
	asTask := c.asTask(tool)
	params := map[string]any{"name": tool.Name, "arguments": c.arguments}
	meta := map[string]any{"progressToken": json.RawMessage(progressToken)}
	params["_meta"] = meta
	switch {
	case asTask:
		augment := mcp.TaskMetadata{}
		if c.o.detach {
			augment.TTL = json.RawMessage("null") // the longest: nobody waits for it
		}
		if c.o.mode.word != "" {
			augment.ResponseModes = []mcp.ResponseMode{mcp.ResponseMode(c.o.mode.word)}
		}
		params["task"] = augment
	case c.o.task || c.o.mode.word != "":
		return nil, c.ended(fmt.Errorf("%s cannot be called as a task: the server or the tool does not take it", tool.Name))
	case c.client.Era() == rpc.Stateless:
		meta["partialResultToken"] = json.RawMessage(progressToken)
	default:
		meta["partialResults"] = true
	}
	for {
		first := make(chan partials.Answer, 1) // of several responses
		raw, err := c.client.Do(wanted, &rpc.Request{Method: "tools/call", Params: params, OnResponse: func(r rpc.Response) bool {
			if r.Err != nil {
				c.tracker.Finish(partials.Failed, r.Err.Message)
				return false
			}
			kind := c.tracker.Response(r.Result)
			select {
			case first <- kind:
			default:
			}
			select {
			case c.changed <- struct{}{}:
			default:
			}
			return kind == partials.AnswerSegments || kind == partials.AnswerHandle && c.o.mode.word != ""
		}})
		if err != nil {
			return nil, c.ended(err)
		}
		switch <-first {
		case partials.AnswerQuestion:
			if err := c.answerAll(wanted, raw, params); err != nil {
				return nil, c.ended(err)
			}
			continue
		case partials.AnswerResult:
			return raw, nil
		}
		if c.o.detach {
			return nil, c.detached(wanted)
		}
		return c.follow(wanted)
	}
}

// asTask tells whether the client says that the call is a task, which is so in 2025-11-25 only.
func (c *call) asTask(tool *mcp.Tool) bool {
	tasks := c.client.Capabilities().Tasks
	return c.client.Version().Tasks && tasks != nil && tasks.Requests != nil && !c.o.noTask &&
		tool.Execution != nil && (tool.Execution.TaskSupport == mcp.TaskOptional || tool.Execution.TaskSupport == mcp.TaskRequired)
}

// answerAll answers what a call was answered with: questions (basic/patterns/mrtr). params is then the call to send again.
func (c *call) answerAll(ctx context.Context, raw json.RawMessage, params map[string]any) error {
	var r mcp.InputRequiredResult
	if err := json.Unmarshal(raw, &r); err != nil {
		return fmt.Errorf("reading the questions: %w", err)
	}
	responses := map[string]any{}
	for key, q := range r.InputRequests {
		if q.Method != "elicitation/create" {
			return fmt.Errorf("the server asks for %q, which cannot be given", q.Method)
		}
		responses[key] = c.asker.ask(ctx, q.Params)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	params["inputResponses"], params["requestState"] = responses, r.RequestState
	return nil
}

// ended tells the tracker of an end that came as an error.
func (c *call) ended(err error) error {
	switch {
	case errors.Is(err, rpc.ErrClosed):
		c.tracker.Finish(partials.Lost, err.Error())
		err = fmt.Errorf("connection lost: %w", c.client.Err())
	case errors.Is(err, errInterrupted), errors.Is(err, errTimeout):
		c.tracker.Finish(partials.Cancelled, err.Error())
	default:
		c.tracker.Finish(partials.Failed, err.Error())
	}
	var e *rpc.Error
	if errors.As(err, &e) {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return err
}

// follow waits for the end of a task and gets its result.
func (c *call) follow(wanted context.Context) (json.RawMessage, error) {
	all, stop := c.connected(context.Background())
	defer stop()
	stateless := c.client.Era() == rpc.Stateless
	if stateless {
		c.background.Go(func() { c.listen(all) })
	}
	poll, inline := defaultPoll, json.RawMessage(nil)
	seen := int64(0) // the last segment at the last poll
	timer := time.NewTimer(poll)
	defer timer.Stop()
	asking, cancelled := wanted, wanted.Done() // who waits for a server that hangs can still give up
	var deadline <-chan struct{}
	for {
		end, _ := c.tracker.End()
		ranging := c.tracker.Ranging()
		if _, more := c.tracker.Rest(); end != partials.Running && !more && !ranging {
			break
		}
		if end != partials.Running && !ranging && !c.tracker.Fetching() {
			if !c.pull(asking) {
				break
			}
			continue
		}
		select {
		case <-c.changed:
			continue
		case <-c.client.Done():
			c.tracker.Finish(partials.Lost, c.client.Err().Error())
			return nil, fmt.Errorf("connection lost: %w", c.client.Err())
		case <-cancelled:
			var stop context.CancelFunc
			asking, stop = context.WithTimeout(all, cancelGrace)
			defer stop()
			cancelled, deadline = nil, asking.Done()
			if err := c.cancel(asking); err != nil {
				return nil, err
			}
		case <-deadline:
			return nil, fmt.Errorf("cancelled, but it has not ended within %v", cancelGrace)
		case <-timer.C:
			// "Requestors MUST NOT rely on receiving this notification": they poll.
			poll = c.poll(asking, poll)
			timer.Reset(poll)
			// A server of SEP-1905 that pushes nothing is asked for what there is.
			last, more := c.tracker.Rest()
			if more && last == seen && !c.tracker.Fetching() {
				c.pull(asking)
			}
			seen, _ = c.tracker.Rest()
		}
	}
	end, message := c.tracker.End()
	switch {
	case end == partials.Expired:
		return nil, errors.New("the task has expired: the server does not know it any more")
	case end == partials.Cancelled:
		if wanted.Err() != nil {
			return nil, context.Cause(wanted)
		}
		return nil, fmt.Errorf("the task was cancelled: %s", message)
	case stateless:
		var t struct {
			Status mcp.TaskStatus  `json:"status"`
			Result json.RawMessage `json:"result"`
			Error  *rpc.Error      `json:"error"`
		}
		if err := c.client.Call(wanted, "tasks/get", mcp.TaskParams{TaskID: c.tracker.TaskID()}, &t); err != nil {
			return nil, c.ended(err)
		}
		if t.Error != nil {
			return nil, fmt.Errorf("%s: %w", c.name, t.Error)
		}
		return t.Result, nil
	}
	// "The canonical result MUST be retrieved via tasks/result" (SEP-2679 1.3.6).
	if err := c.client.Call(wanted, "tasks/result", mcp.TaskParams{TaskID: c.tracker.TaskID()}, &inline); err != nil {
		return nil, c.ended(err)
	}
	return inline, nil
}

// listen subscribes to a task of the stateless era: its states and its output.
func (c *call) listen(ctx context.Context) {
	err := c.client.Call(ctx, "subscriptions/listen", mcp.ListenParams{Notifications: &mcp.SubscriptionFilter{TaskIDs: []string{c.tracker.TaskID()}}}, nil)
	if err != nil && ctx.Err() == nil {
		log := c.i.logger()
		log.Debug().Err(err).Msg("no subscription: polling")
	}
}

// poll asks for the task; it returns when to ask again.
func (c *call) poll(ctx context.Context, before time.Duration) time.Duration {
	var t struct {
		mcp.DetailedTask
		PollInterval int64 `json:"pollInterval"`
	}
	err := c.client.Call(ctx, "tasks/get", mcp.TaskParams{TaskID: c.tracker.TaskID()}, &t)
	var e *rpc.Error
	switch {
	case errors.As(err, &e) && e.Code == mcp.CodeInvalidParams:
		c.tracker.Finish(partials.Expired, e.Message)
		return before
	case err != nil:
		return before
	}
	c.questions(t.TaskID, t.InputRequests)
	c.tracker.Status(t.Status, t.StatusMessage)
	if ms := max(t.PollInterval, t.PollIntervalMs); ms > 0 {
		return max(time.Duration(ms)*time.Millisecond, leastPoll)
	}
	return before
}

// pull gets segments that were not pushed (SEP-1905). It tells whether there may be more.
func (c *call) pull(ctx context.Context) bool {
	last, ok := c.tracker.Rest()
	if !ok {
		return false
	}
	c.fetch(ctx, last)
	after, ok := c.tracker.Rest()
	return ok && after > last
}

func (c *call) fetch(ctx context.Context, last int64) {
	var page json.RawMessage
	err := c.client.Call(ctx, "tasks/result", mcp.TaskParams{TaskID: c.tracker.TaskID(), LastSeqNr: fmt.Append(nil, last)}, &page)
	c.tracker.Fetched(page, err)
}

// resume gets what is missing in a stream.
func (c *call) resume(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case last := <-c.fetches:
			c.fetch(ctx, last)
		case after := <-c.ranges:
			c.tracker.FetchedRange(c.readLog(ctx, after))
		}
		select {
		case c.changed <- struct{}{}:
		default:
		}
	}
}

// readLog reads the task's log from a position on, where the server is a runnel.
func (c *call) readLog(ctx context.Context, after int64) (text string, next int64, err error) {
	if c.client.Capabilities().Resources == nil {
		return "", 0, errors.New("the server has no resources")
	}
	uri := fmt.Sprintf("runnel://tasks/%s/log?after=%d", c.tracker.TaskID(), after)
	var r struct {
		Contents []struct {
			Text string `json:"text"`
			Meta struct {
				Next int64 `json:"runnel/next"`
			} `json:"_meta"`
		} `json:"contents"`
	}
	if err := c.client.Call(ctx, "resources/read", mcp.ResourceParams{URI: uri}, &r); err != nil {
		return "", 0, err
	}
	if len(r.Contents) != 1 {
		return "", 0, fmt.Errorf("%d contents", len(r.Contents))
	}
	return r.Contents[0].Text, r.Contents[0].Meta.Next, nil
}

// cancel asks for the end of the task. That it has ended just before is no error.
func (c *call) cancel(ctx context.Context) error {
	c.view.say("cancelling")
	var t mcp.Task
	err := c.client.Call(ctx, "tasks/cancel", mcp.TaskParams{TaskID: c.tracker.TaskID()}, &t)
	var e *rpc.Error
	if err != nil && !errors.As(err, &e) && ctx.Err() == nil {
		return c.ended(err)
	}
	if err == nil && c.client.Era() == rpc.Handshake {
		c.tracker.Status(t.Status, t.StatusMessage)
	}
	return nil
}

// finish shows what the result has beyond what came, and makes an exit code of it.
func (c *call) finish(raw json.RawMessage) error {
	var r mcp.CallToolResult
	if err := json.Unmarshal(raw, &r); err != nil {
		var wrong *json.UnmarshalTypeError
		if !errors.As(err, &wrong) {
			return fmt.Errorf("reading the result: %w", err)
		}
	}
	switch c.o.output.word {
	case "json":
		var line bytes.Buffer
		if err := json.Compact(&line, raw); err != nil {
			return fmt.Errorf("reading the result: %w", err)
		}
		c.written(c.view.content(line.String() + "\n"))
	case "text":
		switch c.tracker.Compare(r.Content) {
		case partials.NoneStreamed, partials.ResultAdds:
			c.show(c.tracker.Beyond(r.Content))
		case partials.Different:
			if c.tracker.Stats().Gaps > 0 {
				c.say("the result is not what was streamed; --output json shows it")
				break
			}
			// What was streamed was about the work, the result is what came of it.
			c.view.newLine()
			c.show(r.Content)
		}
	}
	return exitOf(&r)
}

// exitOf makes an exit code of a result: that of its command, else 0, or 1 for an error.
func exitOf(r *mcp.CallToolResult) error {
	var s struct {
		ExitCode int `json:"exitCode"` // null after a signal
	}
	_ = json.Unmarshal(r.StructuredContent, &s) // most results have none
	switch {
	case s.ExitCode&0xff != 0:
		return exitError(s.ExitCode & 0xff)
	case r.IsError:
		return exitError(exitFailure)
	}
	return nil
}

// summarize tells on stderr what came.
func (c *call) summarize(raw json.RawMessage, err error) {
	if !c.o.summary {
		return
	}
	var r mcp.CallToolResult
	_ = json.Unmarshal(raw, &r)
	stats := c.tracker.Stats()
	end, _ := c.tracker.End()
	compared := "no result"
	if raw != nil {
		compared = c.tracker.Compare(r.Content).String()
	}
	c.mu.Lock()
	first := c.first
	c.mu.Unlock()
	code := exitFine
	var exit exitError
	if errors.As(err, &exit) {
		code = int(exit)
	} else if err != nil {
		code = exitFailure
	}
	c.i.say(zerolog.InfoLevel, fmt.Sprintf("%d partials, gaps %d, first after %d ms; %d bytes, %s; exit code %d, %v after %d ms",
		stats.Partials, stats.Gaps, first.Milliseconds(), stats.Bytes, compared, code, end, time.Since(c.began).Milliseconds()))
}
