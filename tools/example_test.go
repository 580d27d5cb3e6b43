package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
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
