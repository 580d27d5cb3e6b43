package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"runnel/partials/tracker"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/remote"
)

const (
	// taskTTL is the ttl that tasks at a server are given, in milliseconds, a day: runnel's own task has its own ttl.
	taskTTL = "86400000"
	// logLevel is the level from which on a server of the stateless era sends log lines.
	logLevel = "info"
)

// tool is one tool of an upstream.
type tool struct {
	u    *Server
	spec mcp.Tool // as the server describes it
}

// Describe tells what the server tells, with the prefix; how it can be called is runnel's to say.
func (t *tool) Describe() mcp.Tool {
	spec := t.spec
	spec.Name = t.u.config.Prefix + spec.Name
	spec.Execution = &mcp.ToolExecution{TaskSupport: mcp.TaskOptional, StreamPartial: true}
	return spec
}

// Call calls the tool at the server and writes what comes of it to out. What the server says is passed on as it is: content of any
// kind, errors, questions. A server that dies or hangs gives an error that says so.
func (t *tool) Call(ctx context.Context, in *tools.Call, out *tools.Output) (*mcp.CallToolResult, error) {
	l, err := t.u.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer t.u.leave()
	out.Log().SetLimit(int64(config.DefaultMaxOutput))
	c := newCall(l, in, out, &t.spec)
	defer l.remove(c)
	capabilities := remote.Capabilities(in.CanAsk())
	if in.Caller() != nil {
		capabilities.Roots, capabilities.Sampling = in.Caller().Capabilities.Roots, in.Caller().Capabilities.Sampling
	}
	raw, err := c.remote.Run(ctx, l.client, &remote.Params{
		Tool: t.spec.Name, Arguments: in.Arguments, Task: c.task, Capabilities: &capabilities, LogLevel: logLevel,
	})
	if n := c.remote.Tracker().Stats().Malformed; n > 0 {
		l.u.log.Warn().Int("count", n).Str("tool", t.spec.Name).Msg("an upstream sent output that makes no sense: it is left out")
	}
	switch {
	case err == nil:
		return c.result(raw)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, c.failure(err)
}

// call is one call of a tool of an upstream.
type call struct {
	link   *link
	in     *tools.Call
	caller *rpc.Caller // of in
	out    *tools.Output
	task   *mcp.TaskMetadata
	token  json.RawMessage
	remote *remote.Call

	streams atomic.Bool // content comes in a dialect: messages about the work are no output

	mu   sync.Mutex
	said string   // the status message that was output last
	came streamed // of a plain call of the handshake era
}

func newCall(l *link, in *tools.Call, out *tools.Output, tool *mcp.Tool) *call {
	c := &call{link: l, in: in, caller: in.Caller(), out: out, token: l.token()}
	task, streams := l.way(tool)
	c.task = task
	c.streams.Store(streams)
	c.remote = remote.New(remote.Options{
		Token:   c.token,
		Content: c.content,
		Gap:     func(g tracker.Gap) { c.remark(g.String()) },
		Status:  c.status,
		Ask:     c.ask,
		Log:     l.u.log,

		AskOther: func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			return in.Request(ctx, method, forwarded(params))
		},
	})
	l.add(c)
	return c
}

// way is how a tool is called, and whether its output is known to come as content. A task brings something only with a dialect
// for its output, or where the tool requires one: else a plain call tells more, by its progress.
func (l *link) way(tool *mcp.Tool) (task *mcp.TaskMetadata, streams bool) {
	if l.client.Era() == rpc.Stateless {
		_, streams = l.client.Capabilities().Extensions[mcp.ExtensionTaskPartials]
		return nil, streams
	}
	if !remote.TakesTask(l.client, tool) {
		return nil, false
	}
	task = &mcp.TaskMetadata{TTL: json.RawMessage(taskTTL)}
	switch server := l.client.Capabilities().Tasks; {
	case server.Streaming != nil && server.Streaming.Partial != nil:
		return task, true
	case server.Responses != nil && slices.Contains(server.Responses.Modes, mcp.ModeStreaming):
		task.ResponseModes = []mcp.ResponseMode{mcp.ModeStreaming, mcp.ModeTask}
		return task, true
	case tool.Execution.TaskSupport == mcp.TaskRequired:
		return task, false
	}
	return nil, false
}

// deliver writes to the output of the call and waits where runnel's own client is too far behind; mostly it is the link's reader that does.
func (c *call) deliver(write func()) {
	c.link.waiting.Add(1)
	write()
	c.link.touch()
	c.link.waiting.Add(-1)
}

func (c *call) content(items []json.RawMessage, replaces bool) {
	c.streams.Store(true)
	if replaces {
		c.remark("what follows replaces the output so far")
	}
	if c.task == nil && c.link.client.Era() == rpc.Handshake {
		c.mu.Lock()
		if replaces {
			c.came = streamed{}
		}
		c.came.add(items)
		c.mu.Unlock()
	}
	c.deliver(func() { _ = c.out.Content(items...) }) // fails only when the call has ended
}

// remark says something about the output, apart from it.
func (c *call) remark(text string) {
	c.deliver(func() { _, _ = fmt.Fprintf(c.out.Stderr(), "[%s]\n", text) })
}

// progress passes on what the server says of its progress. Its messages are output as long as no other output comes.
func (c *call) progress(params json.RawMessage) {
	var done, total float64
	var message string
	content := false
	rawjson.EachMember(params, func(name, value []byte) bool {
		switch string(name) {
		case "progress":
			done, _ = strconv.ParseFloat(string(value), 64) // what is of the wrong type reads as absent
		case "total":
			total, _ = strconv.ParseFloat(string(value), 64)
		case "message":
			message = rawjson.Unquote(value)
		case "partialResult":
			content = string(value) != "null"
		}
		return true
	})
	if content {
		return
	}
	c.deliver(func() {
		c.out.Progress(done, total, message)
		if message != "" && !c.streams.Load() {
			_ = c.out.WriteString(message + "\n")
		}
	})
}

// status makes output of what a task says while it works, likewise. A notification and the answer to a poll may come at the same time:
// nothing tells which of them is the later.
func (c *call) status(status mcp.TaskStatus, message string) {
	if status != mcp.TaskWorking || message == "" || c.streams.Load() {
		return
	}
	c.mu.Lock()
	again := message == c.said
	c.said = message
	c.mu.Unlock()
	if !again {
		c.deliver(func() { _ = c.out.WriteString(message + "\n") })
	}
}

// logLine makes output of a log line, beside the rest as what a command writes to stderr.
func (c *call) logLine(params json.RawMessage) {
	var p struct {
		Level  string          `json:"level"`
		Logger string          `json:"logger"`
		Data   json.RawMessage `json:"data"`
	}
	_ = rawjson.Unmarshal(params, &p) // as above
	text := string(p.Data)
	var s string
	if json.Unmarshal(p.Data, &s) == nil {
		text = s
	}
	if p.Logger != "" {
		text = p.Logger + ": " + text
	}
	c.deliver(func() { _, _ = fmt.Fprintf(c.out.Stderr(), "%s: %s\n", p.Level, strings.TrimRight(text, "\n")) })
}

// ask puts a question of the server's to the user.
func (c *call) ask(ctx context.Context, params json.RawMessage) (mcp.ElicitResult, error) {
	var p struct {
		mcp.ElicitParams
		Mode string `json:"mode"`
	}
	if err := rawjson.Unmarshal(params, &p); err != nil || p.Mode != "" && p.Mode != "form" {
		return mcp.ElicitResult{}, rpc.Errorf(mcp.CodeInvalidParams, "only questions by form can be asked")
	}
	if n := len(rawjson.Encode(p.RequestedSchema)); n > tools.MaxQuestionSchema {
		return mcp.ElicitResult{}, rpc.Errorf(mcp.CodeInvalidParams, "the requestedSchema has %d bytes: the limit is %d", n, tools.MaxQuestionSchema)
	}
	answer, err := c.in.Ask(ctx, tools.Question{Message: p.Message, Schema: p.RequestedSchema})
	return mcp.ElicitResult{Action: answer.Action, Content: answer.Content}, err
}
