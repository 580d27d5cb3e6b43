// An MCP server with one tool, whose output streams while it runs.
package main

import (
	"context"
	"fmt"
	"os"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools"
)

func main() {
	var registry tools.Registry
	_ = registry.Add(tools.Func("count", "Counts.", func(_ context.Context, in struct{ To int }, out *tools.Output) (*mcp.CallToolResult, error) {
		for n := range in.To {
			_, _ = fmt.Fprintln(out, n+1)
		}
		return mcp.Result("done"), nil
	}).Streams())
	server, runner := rpc.NewServer(nil), tasks.NewRunner(tasks.Options{})
	runner.Register(server)
	tools.Serve(server, &registry, runner, tools.ServeOptions{})
	_ = server.Serve(context.Background(), os.Stdin, os.Stdout)
}
