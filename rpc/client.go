package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"runnel/internal/pause"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// Client is a connection to a server. Use it to call another server's tools, from a command line or from a
// runnel that stands before that server. Several goroutines may call its methods at once.
type Client struct {
	*peer
	opt   DialOptions
	child *child // nil if the caller of Dial brought the pipes

	// Set before Dial returns.
	version      *mcp.Version
	server       mcp.Implementation
	capabilities mcp.ServerCapabilities
	declared     json.RawMessage // the capabilities as they are written
	instructions string

	closing sync.Once
}

// maxAnswering is how many requests of the server may be answered at once. Few servers ask more than one
// thing at a time.
const maxAnswering = 64

func newClient(opt DialOptions, child *child) *Client {
	c := &Client{opt: opt, child: child, peer: newPeer(pipeOutput{Writer: opt.In}, opt.MaxLine, maxAnswering, opt.Log)}
	c.role = c
	c.conn = newConn(c.peer, opt.Out, errClosedOutput)
	c.anyBytes = true
	c.onLine = opt.OnMessage
	c.w.reader = "server"
	c.incoming.cause = errCancelledByServer
	c.ctx = c.input
	close(c.conn.drained) // once the server sends nothing more, no answer is needed
	return c
}

var (
	errClosedOutput      = errors.New("the server closed its output")
	errCancelledByServer = errors.New("cancelled by the server")
)

// Era is the era of the connection. Check it where the two eras differ: tasks, subscriptions, elicitation.
func (c *Client) Era() Era {
	if c.version.Stateless {
		return Stateless
	}
	return Handshake
}

// InOrder reports whether messages arrive in the order in which they were sent. They may not in the stateless
// era, where each subscription can have its own stream.
func (c *Client) InOrder() bool { return !c.opt.Unordered && c.Era() == Handshake }

// Version is the negotiated protocol version; its fields say what a message may hold.
func (c *Client) Version() *mcp.Version { return c.version }

// Server is the server's name and version, to show to a user.
func (c *Client) Server() mcp.Implementation { return c.server }

// Capabilities are the server's capabilities, as far as runnel knows them. Do not use anything that is not
// declared.
func (c *Client) Capabilities() *mcp.ServerCapabilities { return &c.capabilities }

// Declared are the server's capabilities as it wrote them; nil if it wrote none.
func (c *Client) Declared() json.RawMessage { return c.declared }

// Instructions are the server's instructions for a model, "" if it gave none.
func (c *Client) Instructions() string { return c.instructions }

// Context ends when the server sends nothing more; its cause is the reason. Derive from it any work that only
// makes sense while the server is there.
func (c *Client) Context() context.Context { return c.input }

// Err returns the reason why the server sends nothing more, nil while it still may. Look at it after a failed
// call to decide whether to dial again.
func (c *Client) Err() error { return context.Cause(c.input) }

// Call sends a request, waits for its answer and decodes that into result (nil if it is not wanted). Use it
// for most requests, and [Client.Do] for raw results or several responses.
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

// Do sends a request and returns its first response as it was written. Use it instead of Call for the raw
// result, or where there may be several responses. It returns the server's error as an *[Error], and an error
// that wraps [ErrClosed] if the server can no longer answer. If ctx ends first, Do sends
// notifications/cancelled and returns the cause of ctx.
func (c *Client) Do(ctx context.Context, r *Request) (json.RawMessage, error) {
	params, err := c.params(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Method, err)
	}
	req := &request{method: r.Method, params: params, head: lineHead, w: c.w, onResponse: r.OnResponse}
	answer, err := c.send(ctx, req)
	if r.Until != nil {
		context.AfterFunc(r.Until, func() { c.outgoing.forget(req) })
	}
	return answer, err
}

// A lost subscription is made again after listenPause, which doubles up to longestListenPause while streams
// are lost sooner than that.
const (
	listenPause        = 200 * time.Millisecond
	longestListenPause = 5 * time.Second
)

// Listen is Do for a subscription. If the transport loses the stream, Listen calls lost, since something may
// have been missed, and subscribes again.
func (c *Client) Listen(ctx context.Context, r *Request, lost func()) error {
	for rest := listenPause; ; rest = min(2*rest, longestListenPause) {
		began := time.Now()
		_, err := c.Do(ctx, r)
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != mcp.CodeStreamLost {
			return err
		}
		lost()
		if time.Since(began) > longestListenPause {
			rest = listenPause
		}
		if !pause.For(ctx, rest) {
			return context.Cause(ctx)
		}
	}
}

// Notify sends a notification, such as notifications/roots/list_changed; params may be nil.
func (c *Client) Notify(method string, params any) error {
	return notify(lineHead, method, params, c.w.now)
}

// TryNotify is Notify for what may be dropped: it is while too much is unread.
func (c *Client) TryNotify(method string, params any) error {
	return notify(lineHead, method, params, c.w.try)
}

// Request is a request to the server, for [Client.Do].
type Request struct {
	Method string
	Params any // encodes to an object; nil = none

	// Capabilities replace those of DialOptions for this request, in the stateless era; nil = those of
	// DialOptions.
	Capabilities any

	// OnResponse, if set, gets all responses in the order on the wire, on the goroutine that reads; the first
	// one before Do returns. It reports whether more may come with the same id, as in SEP-1905.
	OnResponse func(Response) (more bool)
	// Until ends the wait for more responses; nil = never.
	Until context.Context
}

// params encodes the params of a request, nil if there are none. In the stateless era it adds to _meta what
// initialize would have said.
func (c *Client) params(r *Request) (any, error) {
	stateless := c.version != nil && c.version.Stateless
	if r.Params == nil && !stateless {
		return nil, nil
	}
	params := []byte("{}")
	if r.Params != nil {
		var err error
		if params, err = json.Marshal(r.Params); err != nil {
			return nil, err
		}
	}
	switch {
	case params[0] != '{':
		return nil, errors.New("params must be an object")
	case !stateless:
		return json.RawMessage(params), nil
	}
	meta := rawjson.Member(params, "_meta")
	if meta != nil && !rawjson.IsObject(meta) && string(meta) != "null" {
		return nil, errors.New("params._meta must be an object")
	}
	capabilities := r.Capabilities
	if capabilities == nil {
		capabilities = c.opt.Capabilities
	}
	meta = rawjson.WithMember(meta, mcp.MetaProtocolVersion, c.version.Name)
	meta = rawjson.WithMember(meta, mcp.MetaClientCapabilities, capabilities)
	if rawjson.Member(meta, mcp.MetaClientInfo) == nil {
		meta = rawjson.WithMember(meta, mcp.MetaClientInfo, c.opt.Info)
	}
	return rawjson.WithMember(params, "_meta", json.RawMessage(meta)), nil
}
