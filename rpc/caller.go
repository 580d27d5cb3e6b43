package rpc

import (
	"context"
	"encoding/json"

	"runnel/rpc/mcp"
)

// Caller is who sent a request and what it can take. It outlives the request: a task notifies through it.
type Caller struct {
	Era          Era
	Version      *mcp.Version
	Client       mcp.Implementation
	Capabilities mcp.ClientCapabilities
	Meta         mcp.RequestMeta // params._meta of the request; what is unusable in it reads as absent

	id   json.RawMessage
	head []byte
}

// ID is the id of the request, byte for byte as the client wrote it.
func (c *Caller) ID() json.RawMessage { return c.id }

// Head is what every line for this caller begins with: `{"jsonrpc":"2.0"` and,
// where the request had one, `,"sessionId":…`. The caller must not change it.
func (c *Caller) Head() []byte { return c.head }

// Notify sends a notification. It never waits for the client to read.
func (c *Caller) Notify(method string, params any) error { panic("internal error: not built yet") }

// Request asks the client and waits for its answer, which is decoded into result (which may be nil).
func (c *Caller) Request(ctx context.Context, method string, params, result any) error {
	panic("internal error: not built yet")
}

// Lane makes a new lane of the output for one stream.
func (c *Caller) Lane() *Lane { panic("internal error: not built yet") }
