package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"runnel/rpc/mcp"
)

// Client is a connection to a server. Its methods may be used at once by several goroutines.
type Client struct {
	*peer
	opt   DialOptions
	child *child // nil: pipes of somebody else's

	// Set while Dial has not returned.
	version      *mcp.Version
	server       mcp.Implementation
	capabilities mcp.ServerCapabilities
	instructions string

	closing sync.Once
}

// maxAnswering is how many requests of the server may be answered at once. Few servers ask for more than one thing.
const maxAnswering = 64

func newClient(opt DialOptions, child *child) *Client {
	c := &Client{opt: opt, child: child, peer: newPeer(opt.Out, opt.In, opt.MaxLine, maxAnswering, opt.Log)}
	c.role, c.w.peer, c.eof = c, "server", errClosedOutput
	c.incoming.cause = errCancelledByServer
	c.ctx = c.input
	c.stop() // once the server sends nothing more, nobody waits for anything
	return c
}

var (
	errClosedOutput      = errors.New("the server closed its output")
	errCancelledByServer = errors.New("cancelled by the server")
)

// Era is the era of the connection.
func (c *Client) Era() Era {
	if c.version.Stateless {
		return Stateless
	}
	return Handshake
}

// Version is the protocol version that was agreed on.
func (c *Client) Version() *mcp.Version { return c.version }

// Server is what the server says it is.
func (c *Client) Server() mcp.Implementation { return c.server }

// Capabilities are the server's, as far as runnel reads them.
func (c *Client) Capabilities() *mcp.ServerCapabilities { return &c.capabilities }

// Instructions are the server's, "" if it gave none.
func (c *Client) Instructions() string { return c.instructions }

// Done is closed when the server sends nothing more.
func (c *Client) Done() <-chan struct{} { return c.input.Done() }

// Context ends when the server sends nothing more; its cause tells why.
func (c *Client) Context() context.Context { return c.input }

// Err tells why the server sends nothing more, nil while it may.
func (c *Client) Err() error { return context.Cause(c.input) }

// Call sends a request and waits for its answer, which is decoded into result (nil = not wanted). See Do.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	raw, err := c.Do(ctx, &Request{Method: method, Params: params})
	if err != nil || result == nil {
		return err
	}
	if err := json.Unmarshal(raw, result); err != nil {
		return fmt.Errorf("%s: reading the result: %w", method, err)
	}
	return nil
}

// Do sends a request and waits for its first response. It returns the server's error as an *[Error], and an error
// that wraps [ErrClosed] when the server can answer no more. If ctx ends first, the server is told by
// notifications/cancelled, and Do returns the cause of ctx.
func (c *Client) Do(ctx context.Context, r *Request) (json.RawMessage, error) {
	params, err := c.params(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Method, err)
	}
	id, answer, err := c.ask(ctx, &question{method: r.Method, params: params, head: lineHead, onResponse: r.OnResponse})
	if r.Until != nil {
		context.AfterFunc(r.Until, func() { c.outgoing.forget(id) })
	}
	return answer, err
}

// Notify sends a notification; params may be nil.
func (c *Client) Notify(method string, params any) error {
	return c.notify(lineHead, method, params, c.now)
}
