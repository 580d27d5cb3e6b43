// An MCP client that prints a tool's output as it comes: client TOOL ARGUMENTS SERVER...
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"runnel/partials/tracker"
	"runnel/rpc"
)

func main() {
	output := tracker.New(tracker.Options{
		Token:   json.RawMessage(`"1"`),
		Content: func(items []json.RawMessage, _ bool) { fmt.Printf("%s\n", items) },
		Gap:     func(g tracker.Gap) { fmt.Println(g) },
	})
	client, err := rpc.Dial(context.Background(), rpc.DialOptions{Command: os.Args[3:], Version: "2025-11-25", Stderr: os.Stderr,
		OnNotification: func(method string, params json.RawMessage) { output.Notification(method, params) }})
	if err != nil {
		panic(err)
	}
	defer func() { _ = client.Close() }()
	err = client.Call(context.Background(), "tools/call", map[string]any{"name": os.Args[1], "arguments": json.RawMessage(os.Args[2]),
		"_meta": map[string]any{"progressToken": "1", "partialResults": true}}, nil)
	fmt.Println("error:", err, "gaps:", output.Stats().Gaps)
}
