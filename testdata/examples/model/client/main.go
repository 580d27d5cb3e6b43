// An MCP client that shows what a tool writes while it writes it: client TOOL ARGUMENTS SERVER...
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"runnel/partials/tracker"
	"runnel/rpc"
	"runnel/rpc/mcp"
)

func main() {
	show := func(items []json.RawMessage, _ bool) {
		for _, item := range items {
			text, _ := mcp.TextOf(item)
			_, _ = fmt.Fprint(os.Stdout, text)
		}
	}
	output := tracker.New(tracker.Options{Content: show})
	ctx, streams := context.Background(), json.RawMessage(`{"tasks":{"streaming":{"partial":{}}}}`)
	client, err := rpc.Dial(ctx, rpc.DialOptions{Command: os.Args[3:], Version: "2025-11-25", Capabilities: streams, Stderr: os.Stderr,
		OnNotification: func(method string, params json.RawMessage) { output.Notification(method, params) }})
	if err != nil {
		log.Fatal(err)
	}
	var handle json.RawMessage
	var result mcp.CallToolResult
	if err = client.Call(ctx, "tools/call", map[string]any{"name": os.Args[1], "arguments": json.RawMessage(os.Args[2]), "task": struct{}{}}, &handle); err == nil {
		output.Response(handle)
		err = client.Call(ctx, "tasks/result", map[string]string{"taskId": output.TaskID()}, &result)
	}
	_ = client.Close()
	_, _ = fmt.Fprintf(os.Stdout, "\n%d pieces, error: %v, usage: %s\n", output.Stats().Partials, err,
		result.Meta[mcp.MetaUsage])
}
