package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// resumption cuts the connection of a call that streams, some times: the SDK goes on with it by itself, and
// sees each chunk once and the result.
func (p *program) resumption(ctx context.Context) error {
	if !p.overHTTP() {
		return nil
	}
	const chunks, bytes = 60, 500
	line := &cutLine{}
	line.cuts.Store(3)
	text := &streamed{Transport: &mcp.StreamableClientTransport{Endpoint: p.name,
		HTTPClient: &http.Client{Transport: line}}}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, nil).
		Connect(ctx, text, &mcp.ClientSessionOptions{ProtocolVersion: handshake})
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	call := &mcp.CallToolParams{Name: "stream",
		Arguments: map[string]any{"count": chunks, "bytes": bytes, "intervalMs": 20},
		Meta:      mcp.Meta{"progressToken": 1, "partialResults": true}}
	result, err := session.CallTool(ctx, call)
	if err != nil || result.IsError {
		return fmt.Errorf("after %d cuts and %d resumptions: %v, %w", 3-line.cuts.Load(), line.resumed.Load(),
			result, err)
	}
	if line.cuts.Load() > 0 || line.resumed.Load() < 3 {
		return fmt.Errorf("%d cuts are left, resumed %d times", line.cuts.Load(), line.resumed.Load())
	}
	for i := range chunks {
		rest, ok := strings.CutPrefix(text.String(), fmt.Sprintf("chunk %06d ", i))
		if !ok || len(rest) < bytes-13 {
			return fmt.Errorf("chunk %d: %.60q", i, text.String())
		}
		text.Reset()
		text.WriteString(rest[bytes-13:])
	}
	return session.Close()
}

// overHTTP reports whether the program is a URL.
func (p *program) overHTTP() bool { return strings.HasPrefix(p.name, "http") }

// streamed is a transport that notes the text of partial results.
type streamed struct {
	mcp.Transport
	strings.Builder
}

func (s *streamed) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := s.Transport.Connect(ctx)
	return &streamedConn{c, s}, err
}

type streamedConn struct {
	mcp.Connection
	s *streamed
}

func (c *streamedConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if r, ok := m.(*jsonrpc.Request); ok && r.Method == "notifications/progress" {
		var params struct {
			PartialResult struct {
				Chunk struct{ Content []mcp.TextContent }
			}
		}
		if err := json.Unmarshal(r.Params, &params); err != nil {
			return nil, err
		}
		for _, item := range params.PartialResult.Chunk.Content {
			c.s.WriteString(item.Text)
		}
	}
	return m, err
}

// cutLine breaks connections off that stream the answer of a call.
type cutLine struct{ cuts, resumed atomic.Int32 }

func (l *cutLine) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || response.Header.Get("Content-Type") != "text/event-stream" ||
		r.Method == "GET" && r.Header.Get("Last-Event-ID") == "" {
		return response, err
	}
	if r.Method == "GET" {
		l.resumed.Add(1)
	}
	if l.cuts.Add(-1) >= 0 {
		response.Body = &cutBody{response.Body, 1700}
	} else {
		l.cuts.Store(0)
	}
	return response, nil
}

type cutBody struct {
	io.ReadCloser
	left int
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errors.Join(io.ErrUnexpectedEOF, b.Close())
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
