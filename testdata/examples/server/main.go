// An MCP server with one tool, whose output streams while it runs.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"runnel/rpc/mcp"
	"runnel/tools"
)

func main() {
	count := tools.Func("count", "Counts, ten a second.",
		func(_ context.Context, in struct{ To int }, out *tools.Output) (*mcp.CallToolResult, error) {
			for n := range in.To {
				_, _ = fmt.Fprintln(out, n+1)
				time.Sleep(time.Second / 10)
			}
			return mcp.Result("done"), nil
		}).Streams()
	if err := tools.ListenAndServe(context.Background(), count); err != nil {
		log.Fatal(err)
	}
}
