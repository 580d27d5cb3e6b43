// Mcpgo offers the tools on mark3labs/mcp-go. A chunk is a progress notification's message.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func main() {
	tools := flag.Int("tools", 0,
		"how many more tools to offer, each with what those of the config have that runnel is given")
	address := flag.String("http", "", "serve HTTP at this address, not stdin")
	flag.Parse()
	s := server.NewMCPServer("mcpgo", "1", server.WithToolCapabilities(false))
	s.AddTool(mcp.NewTool("echo", mcp.WithDescription("Returns its text."),
		mcp.WithString("text", mcp.Required())), echo)
	s.AddTool(mcp.NewTool("stream", mcp.WithDescription("Writes count chunks."),
		mcp.WithNumber("count", mcp.Required()), mcp.WithNumber("bytes"), mcp.WithNumber("intervalMs")),
		stream)
	for i := range *tools {
		s.AddTool(mcp.NewTool(fmt.Sprint("tool", i), mcp.WithTitleAnnotation(fmt.Sprint("Tool ", i)),
			mcp.WithDescription(fmt.Sprintf("Runs the program number %d on some files, and says what it did",
				i)),
			mcp.WithArray("files", mcp.Required(), mcp.WithStringItems()),
			mcp.WithNumber("count", mcp.Description("how many"))), echo)
	}
	if *address != "" {
		fmt.Fprintln(os.Stderr, server.NewStreamableHTTPServer(s, server.WithStateful(true)).Start(*address))
		os.Exit(1)
	}
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
			err := s.SendNotificationToClient(ctx, "notifications/progress",
				map[string]any{"progressToken": token, "progress": i, "message": chunk})
			if err == nil {
				break
			}
			// Its queue of notifications drops what does not fit: a program that means it tries again.
			time.Sleep(10 * time.Microsecond)
		}
	}
	return mcp.NewToolResultText("done"), nil
}
