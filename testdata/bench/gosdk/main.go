// Gosdk offers the tools on the official Go SDK. A chunk is a progress notification's message.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
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

// fileInput is what the tools of -tools take, as those of the config that runnel is given.
type fileInput struct {
	Files []string `json:"files"`
	Count int      `json:"count,omitempty" jsonschema:"how many"`
}

func main() {
	tools := flag.Int("tools", 0, "how many more tools to offer")
	address := flag.String("http", "", "serve HTTP at this address, not stdin")
	flag.Parse()
	server := mcp.NewServer(&mcp.Implementation{Name: "gosdk", Version: "1"},
		&mcp.ServerOptions{PageSize: max(1000, *tools+2)})
	mcp.AddTool(server, &mcp.Tool{Name: "echo", Description: "Returns its text."}, echo)
	mcp.AddTool(server, &mcp.Tool{Name: "stream", Description: "Writes count chunks."}, stream)
	for i := range *tools {
		tool := &mcp.Tool{Name: fmt.Sprint("tool", i), Title: fmt.Sprint("Tool ", i),
			Description: fmt.Sprintf("Runs the program number %d on some files, and says what it did", i)}
		mcp.AddTool(server, tool, func(context.Context, *mcp.CallToolRequest, fileInput) (*mcp.CallToolResult,
			any, error) {
			return result("done"), nil, nil
		})
	}
	if *address != "" {
		handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
		http.Handle("/mcp", handler)
		fmt.Fprintln(os.Stderr, http.ListenAndServe(*address, nil))
		os.Exit(1)
	}
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
		if err := r.Session.NotifyProgress(ctx,
			&mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(i),
				Message: chunk}); err != nil {
			return nil, nil, err
		}
	}
	return result("done"), nil, nil
}
