// Package toolstest calls a tool in a test as a client calls it: the arguments are checked against the input
// schema, a panic is an error, and secrets, limits and results are handled as in a server.
package toolstest

import (
	"bytes"
	"context"
	"encoding/json"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/methods"
	"runnel/tasks/run"
	"runnel/tools"
)

// Called is what came of a call.
type Called struct {
	*mcp.CallToolResult
	Output   string           // the text that the tool wrote, without what it wrote to Stderr
	Progress []tasks.Progress // what it reported, in order
}

// Text returns the texts of the result, without what is between them.
func (c *Called) Text() string {
	var all strings.Builder
	for _, item := range c.Content {
		if text, ok := mcp.TextOf(item); ok {
			all.WriteString(text)
		}
	}
	return all.String()
}

// Call calls a tool with arguments, which encoding/json must be able to encode as an object; nil means none.
// others are further tools of the server, of which the call may make children. The client cannot answer
// questions. An error that is not a result fails the test, as a panic does, whose stack is logged.
func Call(t testing.TB, tool tools.Tool, arguments any, others ...tools.Tool) *Called {
	t.Helper()
	runner := run.NewRunner(run.Options{})
	defer runner.Close()
	return CallBy(t, runner, tool, arguments, others...)
}

// CallBy is Call as a task of a runner, whose state can be read then.
func CallBy(t testing.TB, runner *run.Runner, tool tools.Tool, arguments any, others ...tools.Tool) *Called {
	t.Helper()
	if arguments == nil {
		arguments = struct{}{}
	}
	called := &Called{}
	registry := &tools.Registry{}
	if err := registry.Add(&recorded{Tool: tool, t: t, called: called}); err != nil {
		t.Fatal(err)
	}
	for _, other := range others {
		if err := registry.Add(other); err != nil {
			t.Fatal(err)
		}
	}
	server := rpc.NewServer(&rpc.Options{Drain: -1}) // all calls are answered after the end of the input
	methods.Register(server, runner)
	tools.Serve(server, registry, runner, tools.ServeOptions{})
	request := rawjson.Encode(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": map[string]any{
			"name": tool.Describe().Name, "arguments": arguments,
			"_meta": map[string]any{mcp.MetaProtocolVersion: "2026-07-28",
				mcp.MetaClientCapabilities: struct{}{},
				mcp.MetaClientInfo:         mcp.Implementation{Name: "toolstest", Version: "1"},
				"progressToken":            1},
		}})
	var out bytes.Buffer
	if err := server.Serve(t.Context(), bytes.NewReader(append(request, '\n')), &out); err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(out.Bytes()) {
		var answer struct {
			ID     int
			Result *mcp.CallToolResult
			Error  *rpc.Error
		}
		if json.Unmarshal(line, &answer) != nil || answer.ID != 1 {
			continue
		}
		if answer.Error != nil {
			t.Fatalf("%s: error %d: %s", tool.Describe().Name, answer.Error.Code, answer.Error.Message)
		}
		called.CallToolResult = answer.Result
	}
	if called.CallToolResult == nil {
		t.Fatalf("%s: no answer came: %s", tool.Describe().Name, out.Bytes())
	}
	return called
}

// recorded is a tool whose output and progress are recorded.
type recorded struct {
	tools.Tool
	t      testing.TB
	mu     sync.Mutex
	called *Called
}

func (r *recorded) Call(ctx context.Context, in *tools.Call, out *tools.Output) (*mcp.CallToolResult, error) {
	defer func() {
		if p := recover(); p != nil { // the server answers no more than "internal error"
			r.t.Logf("%s panicked: %v\n%s", r.Describe().Name, p, debug.Stack())
			panic(p)
		}
	}()
	defer func() {
		var output strings.Builder
		defer func() { r.called.Output = output.String() }()
		for next := int64(0); next < out.Log().Size(); {
			batch, end, err := out.Log().ReadAt(ctx, next, 1<<20)
			if err != nil || end <= next {
				return
			}
			for _, chunk := range batch.Chunks() {
				if chunk.Kind == partials.Text && chunk.Stream == partials.Stdout {
					output.Write(chunk.Data)
				}
			}
			next = end
		}
	}()
	return r.Tool.Call(ctx, in, tools.NewOutput(ctx, out.Log(), func(done, total float64, message string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.called.Progress = append(r.called.Progress,
			tasks.Progress{Done: done, Total: total, Message: message})
		out.Progress(done, total, message)
	}))
}

// Traits implements tools.Kind, as the tool itself does.
func (r *recorded) Traits() tools.Traits {
	if kind, ok := r.Tool.(tools.Kind); ok {
		return kind.Traits()
	}
	return tools.Traits{}
}
