package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serve is the SDK's own server over Streamable HTTP, for runnel as its client: /mcp with sessions whose
// streams can be resumed, /stateless without. It prints where it listens.
func serve() error {
	server := mcp.NewServer(&mcp.Implementation{Name: "interop-server", Version: "1"}, nil)
	type arguments struct {
		N      int    `json:"n"`
		Region string `json:"region"`
	}
	schema := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{
		"n":      {Type: "integer"},
		"region": {Type: "string", Extra: map[string]any{"x-mcp-header": "Region"}},
	}}
	mcp.AddTool(server, &mcp.Tool{Name: "count", InputSchema: schema}, func(ctx context.Context,
		r *mcp.CallToolRequest, a arguments) (*mcp.CallToolResult, any, error) {
		for n := range a.N {
			time.Sleep(10 * time.Millisecond)
			p := &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(),
				Progress: float64(n + 1), Total: float64(a.N)}
			if err := r.Session.NotifyProgress(ctx, p); err != nil {
				return nil, nil, err
			}
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("counted %d in %s", a.N, a.Region)}}}, nil, nil
	})
	get := func(*http.Request) *mcp.Server { return server }
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp.NewStreamableHTTPHandler(get,
		&mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)}))
	mux.Handle("/stateless", mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/mcp\n", listener.Addr())
	return http.Serve(listener, mux)
}
