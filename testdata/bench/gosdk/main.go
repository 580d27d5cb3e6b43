// Gosdk offers the tools on the official Go SDK. A chunk is a progress notification's message.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type echoInput struct {
	Text string `json:"text"`
}

type streamInput struct {
	Count      int `json:"count"`
	Bytes      int `json:"bytes,omitempty"`
	IntervalMs int `json:"intervalMs,omitempty"`
}

func main() {
	server := mcp.NewServer(&mcp.Implementation{Name: "gosdk", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "echo", Description: "Returns its text."}, echo)
	mcp.AddTool(server, &mcp.Tool{Name: "stream", Description: "Writes count chunks."}, stream)
	if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		os.Exit(1)
	}
}

func result(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

func echo(_ context.Context, _ *mcp.CallToolRequest, in echoInput) (*mcp.CallToolResult, any, error) {
	return result(in.Text), nil, nil
}

func stream(ctx context.Context, r *mcp.CallToolRequest, in streamInput) (*mcp.CallToolResult, any, error) {
	token := r.Params.GetProgressToken()
	for i := range in.Count {
		stamp := ""
		if in.IntervalMs > 0 {
			if i > 0 {
				time.Sleep(time.Duration(in.IntervalMs) * time.Millisecond)
			}
			stamp = fmt.Sprintf("t=%d ", time.Now().UnixNano())
		}
		chunk := fmt.Sprintf("chunk %06d %s%s\n", i, stamp, strings.Repeat("x", 36-len(stamp)))
		if err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(i), Message: chunk}); err != nil {
			return nil, nil, err
		}
	}
	return result("done"), nil, nil
}
