package rpc

import (
	"bytes"
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

	ctx    context.Context // ends when the server sends nothing more; its cause tells why
	ended  context.CancelCauseFunc
	silent chan struct{}  // closed when nothing more is read
	asking sync.WaitGroup // the server's requests

	closing sync.Once

	mu      sync.Mutex
	lastID  uint64
	waiting map[uint64]*waiting
	asked   map[string]context.CancelCauseFunc // the server's requests that are being answered, by idKey
}

// waiting is a request that has no answer, or not all of its answers.
type waiting struct {
	answer     chan Response // capacity 1: the first response
	answered   bool
	onResponse func(Response) (more bool)
}

// Request is a request to the server.
type Request struct {
	Method string
	Params any // encodes to an object; nil = none

	// Capabilities of the client for this request alone, in the stateless era; nil = those of DialOptions.
	Capabilities *mcp.ClientCapabilities

	// OnResponse, if set, gets the responses in the order on the wire, on the goroutine that reads, before Do returns the
	// first one. It tells whether there may be more with the same id (SEP-1905 streams so); they come after Do has
	// returned, and end with the connection at the latest.
	OnResponse func(Response) (more bool)
	// Until ends the wait for more responses; nil = never.
	Until context.Context
}

// Response is an answer of the server: a result, or an error.
type Response struct {
	Result json.RawMessage
	Err    *Error
}

func newClient(opt DialOptions, child *child) *Client {
	c := &Client{opt: opt, child: child, waiting: map[uint64]*waiting{}, asked: map[string]context.CancelCauseFunc{}, silent: make(chan struct{})}
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
	w := &waiting{answer: make(chan Response, 1), onResponse: r.OnResponse}
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
func (c *Client) await(ctx context.Context, w *waiting) (Response, error) {
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

// line encodes a request. In the stateless era its _meta says what initialize would have.
func (c *Client) line(id uint64, r *Request) ([]byte, error) {
	params, err := encodeParams(r.Params)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Method, err)
	}
	if c.version != nil && c.version.Stateless {
		if params, err = c.withMeta(params, r.Capabilities); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Method, err)
		}
	}
	line := strconv.AppendUint([]byte(`{"jsonrpc":"2.0","id":`), id, 10)
	return appendMethod(line, r.Method, params), nil
}

func appendMethod(line []byte, method string, params []byte) []byte {
	name, _ := json.Marshal(method)
	line = append(append(line, `,"method":`...), name...)
	if params != nil {
		line = append(append(line, `,"params":`...), params...)
	}
	return append(line, '}', '\n')
}

// encodeParams encodes params, which must be an object; nil if there are none.
func encodeParams(params any) ([]byte, error) {
	if params == nil {
		return nil, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(params); err != nil {
		return nil, err
	}
	if b.Bytes()[0] != '{' {
		return nil, errors.New("params must be an object")
	}
	var line bytes.Buffer // what is given encoded may hold newlines
	err := json.Compact(&line, b.Bytes())
	return line.Bytes(), err
}

// withMeta adds the members of _meta that every request of the stateless era has.
func (c *Client) withMeta(params []byte, capabilities *mcp.ClientCapabilities) ([]byte, error) {
	if capabilities == nil {
		capabilities = &c.opt.Capabilities
	}
	ours := map[string]any{
		mcp.MetaProtocolVersion:    c.version.Name,
		mcp.MetaClientCapabilities: capabilities,
		mcp.MetaClientInfo:         c.opt.Info,
	}
	var merged bytes.Buffer
	merged.WriteByte('{')
	if params != nil {
		for it := (members{rest: params[1:]}); it.next(); {
			if string(it.name) != "_meta" {
				member(&merged, it.quoted, it.value)
				continue
			}
			var theirs map[string]json.RawMessage
			if err := json.Unmarshal(it.value, &theirs); err != nil {
				return nil, fmt.Errorf("params._meta must be an object: %w", err)
			}
			for name, value := range theirs {
				ours[name] = value
			}
		}
	}
	meta, err := json.Marshal(ours)
	if err != nil {
		return nil, err
	}
	member(&merged, []byte(`"_meta"`), meta)
	merged.WriteByte('}')
	return merged.Bytes(), nil
}

// Notify sends a notification; params may be nil.
func (c *Client) Notify(method string, params any) error {
	encoded, err := encodeParams(params)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return c.w.control(appendMethod([]byte(`{"jsonrpc":"2.0"`), method, encoded), 0)
}
