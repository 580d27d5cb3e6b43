package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/rs/zerolog"

	"runnel/partials/tracker"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/methods"
	"runnel/tasks/run"
	"runnel/tasks/sqlite"
	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/upstream"
)

// A server with one tool, whose output streams while it runs.
func ExampleListenAndServe() {
	count := tools.Func("count", "Counts.", func(_ context.Context, in struct{ To int },
		out *tools.Output) (*mcp.CallToolResult, error) {
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
	server, runner := rpc.NewServer(&rpc.Options{Instructions: "Call echo."}),
		run.NewRunner(run.Options{TTL: 24 * 60 * 60 * 1e9})
	defer runner.Close()
	methods.Register(server, runner)
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
	remove := tools.FuncWith(entry, func(ctx context.Context, call *tools.Call, in struct{ File string },
		_ *tools.Output) (*mcp.CallToolResult, error) {
		answer, err := call.Ask(ctx, tools.Question{Message: "Delete " + in.File + "?",
			Schema: json.RawMessage(`{"type":"object","properties":{}}`)})
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
	count := tools.Func("count", "Counts.", func(_ context.Context, in struct{ To int },
		out *tools.Output) (*mcp.CallToolResult, error) {
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
	work := tools.Func("work", "Works.", func(_ context.Context, _ struct{},
		out *tools.Output) (*mcp.CallToolResult, error) {
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
	draw := tools.Func("draw", "Draws.", func(_ context.Context, _ struct{},
		out *tools.Output) (*mcp.CallToolResult, error) {
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
	remove := tools.FuncWith(mcp.Tool{Name: "delete",
		Description: "Deletes a file."}, func(ctx context.Context, c *tools.Call, in struct{ File string },
		_ *tools.Output) (*mcp.CallToolResult, error) {
		answer, err := c.Ask(ctx, tools.Question{Message: "Delete " + in.File + "?",
			Schema: json.RawMessage(`{"type":"object","properties":{}}`)})
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
	if err := server.ListenAndServe(context.Background(), count); err != nil {
		log.Fatal(err)
	}
}

// A task of one server is found by the next one that has its state.
func ExampleServer_state() {
	dir, err := os.MkdirTemp("", "tasks")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	var task mcp.CreateTaskResult
	for range 2 {
		client, stop := dial(count, sqlite.New(sqlite.Options{Dir: dir}),
			rpc.DialOptions{Version: "2025-11-25"})
		if task.Task.TaskID == "" {
			params := map[string]any{"name": "count", "arguments": map[string]int{"To": 2},
				"task": struct{}{}}
			if err := client.Call(context.Background(), "tools/call", params, &task); err != nil {
				log.Fatal(err)
			}
		}
		var result mcp.CallToolResult
		if err := client.Call(context.Background(), "tasks/result", mcp.TaskParams{TaskID: task.Task.TaskID},
			&result); err != nil {
			log.Fatal(err)
		}
		show(&result)
		stop()
	}
	// Output:
	// result: "1\n2\n"
	// result: "1\n2\n"
}

// A client that starts a server, and shows the output of a tool as it comes.
func Example_client() {
	os.Setenv(asServer, "1") // this program is the server, too
	defer os.Unsetenv(asServer)
	output := tracker.New(tracker.Options{
		Token: json.RawMessage(`1`),
		Content: func(items []json.RawMessage, _ bool) {
			for _, item := range items {
				text, _ := mcp.TextOf(item)
				fmt.Print(text)
			}
		},
	})
	client, err := rpc.Dial(context.Background(), rpc.DialOptions{Command: os.Args[:1], Version: "2025-11-25",
		OnNotification: func(method string, params json.RawMessage) { output.Notification(method, params) }})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	params := map[string]any{"name": "count", "arguments": map[string]int{"To": 2},
		"_meta": map[string]any{"progressToken": 1, "partialResults": true}}
	if err := client.Call(context.Background(), "tools/call", params, nil); err != nil {
		log.Fatal(err)
	}
	fmt.Println("gaps:", output.Stats().Gaps)
	// Output:
	// 1
	// 2
	// gaps: 0
}

// A server that wraps another one: the tools of both are tasks whose output streams.
func Example_wrap() {
	os.Setenv(asServer, "1") // this program is the other server, too
	defer os.Unsetenv(asServer)
	other, err := upstream.New("other", config.Upstream{Command: os.Args[:1], Prefix: "other_"},
		config.Base{}, zerolog.Nop())
	if err != nil {
		log.Fatal(err)
	}
	set := upstream.NewSet(&tools.Registry{})
	defer set.Close()
	if err := errors.Join(set.Tools.Add(count), set.Add(other)); err != nil {
		log.Fatal(err)
	}
	client, stop := connect(nil, rpc.DialOptions{}, func(server *rpc.Server, runner *run.Runner) {
		set.Serve(server, runner, false, tools.DefaultServeOptions())
	})
	defer stop()
	for _, name := range []string{"count", "other_count"} {
		var result mcp.CallToolResult
		params := map[string]any{"name": name, "arguments": map[string]int{"To": 1}}
		if err := client.Call(context.Background(), "tools/call", params, &result); err != nil {
			log.Fatal(err)
		}
		fmt.Print(name, " ")
		show(&result)
	}
	// Output:
	// count result: "1\n"
	// other_count result: "1\n"
}

var count = tools.Func("count",
	"Counts.", func(_ context.Context, in struct{ To int }, out *tools.Output) (*mcp.CallToolResult, error) {
		for n := range in.To {
			_, _ = fmt.Fprintln(out, n+1)
		}
		return nil, nil
	}).Streams()

// asServer is the variable with which this program is a server with the tool count.
const asServer = "RUNNEL_EXAMPLE_SERVER"

func init() {
	if os.Getenv(asServer) != "" {
		if err := tools.ListenAndServe(context.Background(), count); err != nil {
			log.Fatal(err)
		}
		os.Exit(0)
	}
}

// call serves a tool in this process, and is the client that calls it: it prints the progress, the questions
// (which it accepts) and the result.
func call(tool tools.Tool, arguments any) {
	client, stop := dial(tool, nil, rpc.DialOptions{
		Version:      "2025-11-25",
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
	defer stop()
	var result mcp.CallToolResult
	params := map[string]any{"name": tool.Describe().Name}
	// A tool that streams sends no progress, or its last line would come twice.
	if e := tool.Describe().Execution; e == nil || !e.StreamPartial {
		params["_meta"] = map[string]any{"progressToken": 1}
	}
	if arguments != nil {
		params["arguments"] = arguments
	}
	if err := client.Call(context.Background(), "tools/call", params, &result); err != nil {
		log.Fatal(err)
	}
	show(&result)
}

// dial serves a tool in this process, with a state (nil = in memory), and connects a client to it.
func dial(tool tools.Tool, state tasks.State, o rpc.DialOptions) (client *rpc.Client, stop func()) {
	var registry tools.Registry
	if err := registry.Add(tool); err != nil {
		log.Fatal(err)
	}
	return connect(state, o, func(server *rpc.Server, runner *run.Runner) {
		tools.Serve(server, &registry, runner, tools.DefaultServeOptions())
	})
}

// connect makes a server in this process, and connects a client to it. stop ends both.
func connect(state tasks.State, o rpc.DialOptions,
	serve func(*rpc.Server, *run.Runner)) (client *rpc.Client, stop func()) {
	server, runner := rpc.NewServer(nil), run.NewRunner(run.Options{State: state})
	methods.Register(server, runner)
	serve(server, runner)
	requests, in := io.Pipe()
	answers, out := io.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(context.Background(), requests, out)
		_ = out.Close()
	}()
	o.In = in
	o.Out = answers
	o.Info = mcp.Implementation{Name: "example", Version: "1"}
	client, err := rpc.Dial(context.Background(), o)
	if err != nil {
		log.Fatal(err)
	}
	return client, func() {
		_ = client.Close()
		<-served
		runner.Close()
		if state, ok := state.(io.Closer); ok {
			_ = state.Close()
		}
	}
}

func show(result *mcp.CallToolResult) {
	for _, item := range result.Content {
		if text, ok := mcp.TextOf(item); ok {
			fmt.Printf("result: %q\n", text)
		} else {
			fmt.Printf("result: %s\n", item)
		}
	}
}
