package upstream

import (
	"cmp"
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
	"runnel/tools/remote"
)

const (
	// taskTTL is the ttl, in milliseconds, that runnel asks a server for: a day. Runnel's own task has
	// another ttl.
	taskTTL = "86400000"
	// logLevel is the lowest level of log lines that a server of the stateless era sends to a session that
	// has set none.
	logLevel = "info"
)

// call is one call of a tool at a server.
type call struct {
	*link
	in     *tools.Call
	caller *rpc.Caller // the client that sent in
	out    *tools.Output
	task   *mcp.TaskMetadata
	token  json.RawMessage
	remote *remote.Call

	streams atomic.Bool // content comes in a dialect, so messages about the work are not output

	mu   sync.Mutex
	said string // the status message that was output last
}

// follow makes the remote.Call that follows the call.
func (c *call) follow(tool *mcp.Tool) {
	streams := false
	c.task, streams = way(c.client, tool)
	c.streams.Store(streams)
	c.remote = remote.New(remote.Options{
		Token:   c.token,
		Content: c.content,
		Gap:     func(g tracker.Gap) { c.remark(g.String()) },
		Status:  c.status,
		Request: c.request,
		Others:  true,
		Log:     c.log,
	})
}

// request answers a request of the server.
func (c *call) request(ctx context.Context, method string, params json.RawMessage) (any, error) {
	return c.in.Request(ctx, method, toClient(params))
}

// isForm reports whether a request puts a question by form.
func isForm(method string, params json.RawMessage) bool {
	return method == "elicitation/create" && rawjson.StringMember(params, "mode") != "url"
}

// run makes the call and returns the result as it came.
func (c *call) run(ctx context.Context, tool string) (json.RawMessage, error) {
	params := &remote.Params{Tool: tool, Arguments: c.in.Arguments, Task: c.task, LogLevel: c.level(ctx)}
	switch {
	case c.client.Era() == rpc.Handshake: // it knows them from initialize
	case c.caller == nil:
		params.Capabilities = rawjson.Merge(rawjson.Encode(remote.Capabilities(false)),
			rawjson.Encode(c.in.Asks()))
	default:
		params.Capabilities = capabilities(c.caller)
	}
	if c.in.Params != nil {
		params.Base = toServer(c.in.Params, c.client.Era())
		// Runnel's client has a task of runnel's.
		for _, member := range []string{"task", "inputResponses", "requestState"} {
			params.Base = rawjson.WithMember(params.Base, member, nil)
		}
	}
	raw, err := c.remote.Run(ctx, c.client, params)
	if n := c.remote.Tracker().Stats().Malformed; n > 0 {
		c.log.Warn().Int("count", n).Str("tool", tool).
			Msg("an upstream sent output that makes no sense: it is left out")
	}
	return raw, err
}

// way returns how a tool is called, and whether its output is known to come as content. A task is better only
// if its output has a dialect, or if the tool requires a task; otherwise a plain call shows more, by its
// progress.
func way(client *rpc.Client, tool *mcp.Tool) (task *mcp.TaskMetadata, streams bool) {
	if client.Era() == rpc.Stateless {
		_, streams = client.Capabilities().Extensions[mcp.ExtensionTaskPartials]
		return nil, streams
	}
	if !remote.TakesTask(client, tool) {
		return nil, false
	}
	task = &mcp.TaskMetadata{TTL: json.RawMessage(taskTTL)}
	switch server := client.Capabilities().Tasks; {
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

func (c *call) content(items []json.RawMessage, replaces bool) {
	c.streams.Store(true)
	if replaces {
		c.remark("what follows replaces the output so far")
	}
	c.silence.deliver(func() { _ = c.out.Content(items...) }) // fails only when the call has ended
}

// remark writes a message to the output as a separate item.
func (c *call) remark(text string) { c.stderr("[" + text + "]\n") }

func (c *call) stderr(text string) {
	c.silence.deliver(func() { _, _ = c.out.Stderr().Write([]byte(text)) })
}

// progress passes on the server's progress. Its messages count as output as long as no other output comes.
func (c *call) progress(params json.RawMessage) {
	var done, total float64
	message := ""
	for it := rawjson.Over(params); it.Next(); {
		switch string(it.Name) {
		case "partialResult":
			if string(it.Value) != "null" {
				return
			}
		case "progress":
			done, _ = strconv.ParseFloat(string(it.Value), 64) // a value of the wrong type reads as absent
		case "total":
			total, _ = strconv.ParseFloat(string(it.Value), 64)
		case "message":
			message = rawjson.Unquote(it.Value)
		}
	}
	c.silence.deliver(func() {
		c.out.PassProgress(done, total, message, params)
		if message != "" && !c.streams.Load() {
			_ = c.out.WriteString(message + "\n")
		}
	})
}

// status writes the status messages of a working task to the output, under the same rule, each once. A
// notification and the answer to a poll may come at the same time, and nothing shows which is newer.
func (c *call) status(message string) {
	if c.streams.Load() {
		return
	}
	c.mu.Lock()
	again := message == c.said
	c.said = message
	c.mu.Unlock()
	if !again {
		c.silence.deliver(func() { _ = c.out.WriteString(message + "\n") })
	}
}

// logLine writes a log line to the output, marked as stderr.
func (c *call) logLine(params json.RawMessage) {
	data := rawjson.Member(params, "data")
	text := string(data)
	if s := rawjson.Unquote(data); s != "" {
		text = s
	}
	if logger := rawjson.StringMember(params, "logger"); logger != "" {
		text = logger + ": " + text
	}
	c.stderr(fmt.Sprintf("%s: %s\n", rawjson.StringMember(params, "level"), strings.TrimRight(text, "\n")))
}

// level returns the lowest level of log lines that a server of the stateless era sends with the call: what
// the client asks for. One of the handshake era is told to send what its client asks for.
func (c *call) level(ctx context.Context) string {
	if c.caller == nil || c.caller.Era == rpc.Handshake {
		return cmp.Or(c.session.least(), logLevel)
	}
	level := rawjson.Unquote(c.caller.Meta.LogLevel)
	c.session.lower(ctx, c.client, level, c.log)
	return level
}
