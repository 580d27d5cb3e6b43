package rpc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// Client is a connection to a server, for whoever calls the tools of others: a command line, or a runnel before another server. Its methods
// may be used at once by several goroutines.
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
	c := &Client{opt: opt, child: child, peer: newPeer(newLineReader(opt.Out, opt.MaxLine), pipeOutput{opt.In}, opt.MaxLine, maxAnswering, opt.Log)}
	c.role, c.w.reader, c.eof, c.saw = c, "server", errClosedOutput, opt.OnMessage
	c.incoming.cause = errCancelledByServer
	c.ctx = c.input
	c.stop() // once the server sends nothing more, nobody waits for anything
	return c
}

var (
	errClosedOutput      = errors.New("the server closed its output")
	errCancelledByServer = errors.New("cancelled by the server")
)

// Era is the era of the connection, for what the two do in other ways: tasks, subscriptions, questions.
func (c *Client) Era() Era {
	if c.version.Stateless {
		return Stateless
	}
	return Handshake
}

// InOrder reports whether all that comes does so in the order in which it was sent: subscriptions of the stateless era may have streams of
// their own.
func (c *Client) InOrder() bool { return !c.opt.Unordered && c.Era() == Handshake }

// Version is the protocol version that was agreed on; its fields say what a message may hold.
func (c *Client) Version() *mcp.Version { return c.version }

// Server is what the server says it is, to show it.
func (c *Client) Server() mcp.Implementation { return c.server }

// Capabilities are the server's, as far as runnel reads them: what is not declared is not to be asked for.
func (c *Client) Capabilities() *mcp.ServerCapabilities { return &c.capabilities }

// Instructions are the server's for a model, "" if it gave none.
func (c *Client) Instructions() string { return c.instructions }

// Context ends when the server sends nothing more; its cause tells why. Work that makes sense only with the server derives from it.
func (c *Client) Context() context.Context { return c.input }

// Err returns why the server sends nothing more, nil while it may: after an error, whether to dial again.
func (c *Client) Err() error { return context.Cause(c.input) }

// Call sends a request and waits for its answer, which is decoded into result (nil = not wanted). It is enough for most; what it lacks, Do
// has.
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

// Do is Call where the answer is wanted as it is written, or there may be several: it sends a request and waits for its first response. It
// returns the server's error as an *[Error], and an error that wraps [ErrClosed] when the server can answer no more. If ctx ends first, the
// server is told by notifications/cancelled, and Do returns the cause of ctx.
func (c *Client) Do(ctx context.Context, r *Request) (json.RawMessage, error) {
	params, err := c.params(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Method, err)
	}
	q := &question{method: r.Method, params: params, head: lineHead, w: c.w, onResponse: r.OnResponse}
	answer, err := c.ask(ctx, q)
	if r.Until != nil {
		context.AfterFunc(r.Until, func() { c.outgoing.forget(q) })
	}
	return answer, err
}

// A subscription is made again after listenPause, which doubles up to longestListenPause while streams are lost sooner than that.
const (
	listenPause        = 200 * time.Millisecond
	longestListenPause = 5 * time.Second
)

// Listen is Do for a subscription, which is made again when a transport has lost its stream: lost is called, since something may have
// been missed.
func (c *Client) Listen(ctx context.Context, r *Request, lost func()) error {
	for pause := listenPause; ; pause = min(2*pause, longestListenPause) {
		began := time.Now()
		_, err := c.Do(ctx, r)
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != mcp.CodeStreamLost {
			return err
		}
		lost()
		if time.Since(began) > longestListenPause {
			pause = listenPause
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Notify sends a notification, such as notifications/roots/list_changed; params may be nil.
func (c *Client) Notify(method string, params any) error {
	return notify(lineHead, method, params, c.w.now)
}

// Request is a request to the server, for [Client.Do].
type Request struct {
	Method string
	Params any // encodes to an object; nil = none

	// Capabilities of the client for this request alone, in the stateless era; nil = those of DialOptions.
	Capabilities *mcp.ClientCapabilities

	// OnResponse, if set, gets the responses in the order on the wire, on the goroutine that reads, before Do returns the
	// first one. It reports whether there may be more with the same id (SEP-1905 streams so); they come after Do has
	// returned, and end with the connection at the latest.
	OnResponse func(Response) (more bool)
	// Until ends the wait for more responses; nil = never.
	Until context.Context
}

// params are those of a request, nil if there are none. In the stateless era their _meta says what initialize would have.
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
	case stateless:
		return c.withMeta(params, cmp.Or(r.Capabilities, &c.opt.Capabilities))
	}
	return json.RawMessage(params), nil
}

// withMeta adds the members of _meta that every request of the stateless era has.
func (c *Client) withMeta(params []byte, capabilities *mcp.ClientCapabilities) (json.RawMessage, error) {
	meta := map[string]json.RawMessage{
		mcp.MetaProtocolVersion:    rawjson.Encode(c.version.Name),
		mcp.MetaClientCapabilities: rawjson.Encode(capabilities),
		mcp.MetaClientInfo:         rawjson.Encode(c.opt.Info),
	}
	theirs := rawjson.Member(params, "_meta")
	if rawjson.IsObject(theirs) {
		_ = json.Unmarshal(theirs, &meta) // it is valid
	} else if theirs != nil && string(theirs) != "null" {
		return nil, errors.New("params._meta must be an object")
	}
	return rawjson.WithMember(params, "_meta", meta), nil
}
