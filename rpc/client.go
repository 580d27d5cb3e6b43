package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"runnel/rpc/mcp"
)

// Client is a connection to a server. Its methods may be used at once by several goroutines.
//
// It does its own correlation: a jsonrpc2.Conn takes the first response of an id as final, and keeps for ever what is
// cancelled and therefore never answered.
//
// Goroutines: one reads, one writes, one for each request of the server's; with a child one waits for it.
type Client struct {
	opt   DialOptions
	child *child // nil: pipes of somebody else's
	w     *writer

	// Set while Dial has not returned.
	version      *mcp.Version
	server       mcp.Implementation
	capabilities mcp.ServerCapabilities
	instructions string

	ctx       context.Context // ends when the server sends nothing more; its cause tells why
	ended     context.CancelCauseFunc
	silent    chan struct{}  // closed when nothing more is read
	answerers sync.WaitGroup // goroutines that answer the server

	closing sync.Once

	mu        sync.Mutex
	lastID    uint64
	waiting   map[uint64]*awaited
	answering map[string]context.CancelCauseFunc // the server's requests that have no answer yet, by idKey
}

// awaited is a request that has no answer, or not all of its answers.
type awaited struct {
	answer     chan Response // capacity 1: the first response
	answered   bool
	onResponse func(Response) (more bool)
}

func newClient(opt DialOptions, child *child) *Client {
	c := &Client{opt: opt, child: child, waiting: map[uint64]*awaited{}, answering: map[string]context.CancelCauseFunc{}, silent: make(chan struct{})}
	c.w = newWriter(opt.In, func(int) {}, opt.Log)
	c.w.peer = "server"
	c.ctx, c.ended = context.WithCancelCause(context.Background())
	return c
}

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
func (c *Client) Done() <-chan struct{} { return c.ctx.Done() }

// Context ends when the server sends nothing more; its cause tells why.
func (c *Client) Context() context.Context { return c.ctx }

// Err tells why the server sends nothing more, nil while it may.
func (c *Client) Err() error { return context.Cause(c.ctx) }

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
	w := &awaited{answer: make(chan Response, 1), onResponse: r.OnResponse}
	c.mu.Lock()
	c.lastID++ // from 1: some servers take an id of 0 for none
	id := c.lastID
	c.waiting[id] = w
	c.mu.Unlock()

	line, err := c.line(id, r)
	if err != nil {
		c.forget(id)
		return nil, err
	}
	if err := c.write(ctx, func(dst []byte) []byte { return append(dst, line...) }); err != nil {
		c.forget(id)
		return nil, err
	}
	answer, err := c.await(ctx, w)
	if r.Until != nil {
		context.AfterFunc(r.Until, func() { c.forget(id) })
	}
	switch {
	case err == nil && answer.Err != nil:
		return nil, answer.Err
	case err == nil:
		return answer.Result, nil
	}
	c.forget(id)
	if !errors.Is(err, ErrClosed) && r.Method != "initialize" { // "The initialize request MUST NOT be cancelled by clients"
		_ = c.Notify("notifications/cancelled", mcp.CancelledParams{RequestID: strconv.AppendUint(nil, id, 10), Reason: err.Error()})
	}
	return nil, err
}

// write writes what encode appends when the server has read what came before: one that does not read fills no memory.
func (c *Client) write(ctx context.Context, encode func(dst []byte) []byte) error {
	open, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	err := (&Lane{c.w}).Write(open, encode)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case c.ctx.Err() != nil:
		err = c.Err()
	}
	return fmt.Errorf("%w: %w", ErrClosed, err)
}

// await waits for the first response. An answer that is there counts, whatever else has happened.
func (c *Client) await(ctx context.Context, w *awaited) (Response, error) {
	select {
	case r := <-w.answer:
		return r, nil
	case <-c.ctx.Done():
	case <-ctx.Done():
	}
	select {
	case r := <-w.answer:
		return r, nil
	default:
	}
	if c.ctx.Err() != nil {
		return Response{}, fmt.Errorf("%w: %w", ErrClosed, c.Err())
	}
	return Response{}, context.Cause(ctx)
}

func (c *Client) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}

// Notify sends a notification; params may be nil.
func (c *Client) Notify(method string, params any) error {
	encoded, err := encodeParams(params)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return c.w.queue(appendMethod([]byte(`{"jsonrpc":"2.0"`), method, encoded), 0)
}
