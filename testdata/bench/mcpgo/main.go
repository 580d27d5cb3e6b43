// Mcpgo offers the tools on mark3labs/mcp-go. A chunk is a progress notification's message.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func main() {
	s := server.NewMCPServer("mcpgo", "1", server.WithToolCapabilities(false))
	s.AddTool(mcp.NewTool("echo", mcp.WithDescription("Returns its text."), mcp.WithString("text", mcp.Required())), echo)
	s.AddTool(mcp.NewTool("stream", mcp.WithDescription("Writes count chunks."),
		mcp.WithNumber("count", mcp.Required()), mcp.WithNumber("bytes"), mcp.WithNumber("intervalMs")), stream)
	// Without a queue this long its workers refuse what a thousand tasks need.
	if err := server.ServeStdio(s, server.WithWorkerPoolSize(100), server.WithQueueSize(10000)); err != nil {
		os.Exit(1)
	}
}

func echo(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultText(r.GetString("text", "")), nil
}

func stream(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var token any
	if r.Params.Meta != nil {
		token = r.Params.Meta.ProgressToken
	}
	s := server.ServerFromContext(ctx)
	interval := r.GetInt("intervalMs", 0)
	for i := range r.GetInt("count", 0) {
		stamp := ""
		if interval > 0 {
			if i > 0 {
				time.Sleep(time.Duration(interval) * time.Millisecond)
			}
			stamp = fmt.Sprintf("t=%d ", time.Now().UnixNano())
		}
		chunk := fmt.Sprintf("chunk %06d %s%s\n", i, stamp, strings.Repeat("x", 36-len(stamp)))
		for {
			err := s.SendNotificationToClient(ctx, "notifications/progress", map[string]any{"progressToken": token, "progress": i, "message": chunk})
			if err == nil {
				break
			}
			// Its queue of notifications drops what does not fit: a program that means it tries again.
			time.Sleep(10 * time.Microsecond)
		}
	}
	return mcp.NewToolResultText("done"), nil
}
