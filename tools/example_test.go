package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/sqlite"
	"runnel/tools"
)

// A server with one tool, whose output streams while it runs.
func ExampleListenAndServe() {
	count := tools.Func("count", "Counts.", func(_ context.Context, in struct{ To int }, out *tools.Output) (*mcp.CallToolResult, error) {
		for n := range in.To {
			_, _ = fmt.Fprintln(out, n+1)
		}
		return mcp.Result("done"), nil
	}).Streams()
	if err := tools.ListenAndServe(context.Background(), count); err != nil {
		log.Fatal(err)
	}
}

// A server with other options.
func ExampleServe() {
	var registry tools.Registry
	server, runner := rpc.NewServer(&rpc.Options{Instructions: "Call echo."}), tasks.NewRunner(tasks.Options{TTL: 24 * 60 * 60 * 1e9})
	defer runner.Close()
	runner.Register(server)
	options := tools.DefaultServeOptions()
	options.FallbackTools = "never"
	tools.Serve(server, &registry, runner, options)
	if err := server.Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// A tool with a written input schema, which asks its user.
func ExampleFuncWith() {
	entry := mcp.Tool{Name: "delete", InputSchema: tools.ObjectSchema(`"file":{"type":"string"}`, `"file"`)}
	remove := tools.FuncWith(entry, func(ctx context.Context, call *tools.Call, in struct{ File string }, _ *tools.Output) (*mcp.CallToolResult, error) {
		answer, err := call.Ask(ctx, tools.Question{Message: "Delete " + in.File + "?", Schema: json.RawMessage(`{"type":"object","properties":{}}`)})
		if err != nil {
			return nil, err
		}
		return mcp.Result("the user said " + string(answer.Action)), nil
	})
	fmt.Println(string(remove.Describe().InputSchema))
	// Output: {"type":"object","properties":{"file":{"type":"string"}},"required":["file"],"additionalProperties":false}
}

// A tool that streams: what it writes reaches the client while it runs, and is its result.
func ExampleOutput() {
	count := tools.Func("count", "Counts.", func(_ context.Context, in struct{ To int }, out *tools.Output) (*mcp.CallToolResult, error) {
		for n := range in.To {
			_, _ = fmt.Fprintln(out, n+1)
		}
		return nil, nil
	}).Streams()
	call(count, map[string]any{"To": 2})
	// Output: result: "1\n2\n"
}

// A tool that says how far it is.
func ExampleOutput_Progress() {
	work := tools.Func("work", "Works.", func(_ context.Context, _ struct{}, out *tools.Output) (*mcp.CallToolResult, error) {
		out.Progress(1, 2, "half")
		return mcp.Result("done"), nil
	})
	call(work, nil)
	// Output:
	// progress: 1 of 2, half
	// result: "done"
}

// A tool that returns an image.
func ExampleOutput_Content() {
	draw := tools.Func("draw", "Draws.", func(_ context.Context, _ struct{}, out *tools.Output) (*mcp.CallToolResult, error) {
		if err := out.Content(mcp.Image([]byte("the bytes"), "image/png")); err != nil {
			return nil, err
		}
		return nil, nil
	})
	call(draw, nil)
	// Output: result: {"type":"image","data":"dGhlIGJ5dGVz","mimeType":"image/png"}
}

// A tool that asks its user.
func ExampleCall_Ask() {
	remove := tools.FuncWith(mcp.Tool{Name: "delete", Description: "Deletes a file."}, func(ctx context.Context, c *tools.Call, in struct{ File string }, _ *tools.Output) (*mcp.CallToolResult, error) {
		answer, err := c.Ask(ctx, tools.Question{Message: "Delete " + in.File + "?", Schema: json.RawMessage(`{"type":"object","properties":{}}`)})
		if err != nil {
			return nil, err
		}
		return mcp.Result("the user said " + string(answer.Action)), nil
	})
	call(remove, map[string]any{"File": "a.txt"})
	// Output:
	// question: Delete a.txt?
	// result: "the user said accept"
}

// A server whose tasks are on disk, where they survive it.
func ExampleServer() {
	server := &tools.Server{Name: "hello", State: sqlite.New(sqlite.Options{Dir: "tasks"})}
	hello := tools.Func("hello", "Says hello.", func(context.Context, struct{}, *tools.Output) (*mcp.CallToolResult, error) {
		return mcp.Result("hello"), nil
	})
	if err := server.ListenAndServe(context.Background(), hello); err != nil {
		log.Fatal(err)
	}
}

// call serves a tool in this process, and is the client that calls it: it prints the progress, the questions (which it accepts) and the result.
func call(tool tools.Tool, arguments any) {
	var registry tools.Registry
	if err := registry.Add(tool); err != nil {
		log.Fatal(err)
	}
	server, runner := rpc.NewServer(nil), tasks.NewRunner(tasks.Options{})
	defer runner.Close()
	runner.Register(server)
	tools.Serve(server, &registry, runner, tools.DefaultServeOptions())
	requests, in := io.Pipe()
	answers, out := io.Pipe()
	go func() {
		_ = server.Serve(context.Background(), requests, out)
		_ = out.Close()
	}()
	client, err := rpc.Dial(context.Background(), rpc.DialOptions{
		In: in, Out: answers, Version: "2025-11-25",
		Info:         mcp.Implementation{Name: "example", Version: "1"},
		Capabilities: mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}},
		OnNotification: func(_ string, params json.RawMessage) {
			var p struct {
				Progress, Total float64
				Message         string
			}
			_ = json.Unmarshal(params, &p)
			fmt.Printf("progress: %v of %v, %s\n", p.Progress, p.Total, p.Message)
		},
		OnRequest: func(_ context.Context, _ string, params json.RawMessage) (any, error) {
			var q struct{ Message string }
			_ = json.Unmarshal(params, &q)
			fmt.Println("question:", q.Message)
			return map[string]any{"action": "accept", "content": map[string]any{}}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	var result mcp.CallToolResult
	params := map[string]any{"name": tool.Describe().Name}
	if e := tool.Describe().Execution; e == nil || !e.StreamPartial { // otherwise its last line would come as progress, too
		params["_meta"] = map[string]any{"progressToken": 1}
	}
	if arguments != nil {
		params["arguments"] = arguments
	}
	if err := client.Call(context.Background(), "tools/call", params, &result); err != nil {
		log.Fatal(err)
	}
	for _, item := range result.Content {
		if text, ok := mcp.TextOf(item); ok {
			fmt.Printf("result: %q\n", text)
		} else {
			fmt.Printf("result: %s\n", item)
		}
	}
}
