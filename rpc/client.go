package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	c := &Client{opt: opt, child: child,
		peer: newPeer(pipeOutput{Writer: opt.In}, opt.MaxLine, maxAnswering, opt.Log)}
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

// Call sends a request, waits for its answer and decodes that into result (nil if it is not wanted).
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

// array lets the peer read an array of messages, which some servers send on one line.
func (c *Client) array([]byte, *writer) (*batch, *Error) { return nil, nil }

// refuse drops a line that is not a message. "The server MUST NOT write anything to its stdout that is not a
// valid MCP message" (basic/transports), but a banner is not a reason to give up. If the line looks like the
// answer to a request, that request fails: it would wait for ever for a better one. A log line may have an id
// and an error, too.
func (c *Client) refuse(m *message, line []byte) *Error {
	switch {
	case m.problem.Code == mcp.CodeParseError:
		if c.opt.OnGarbage != nil {
			c.opt.OnGarbage(line)
		}
		if m.id = answerIn(line); m.id == nil {
			return nil
		}
		c.log.Warn().Bytes("id", m.id).Str("problem", m.problem.Message).
			Msg("an answer of the server cannot be read: its request fails")
		return Errorf(mcp.CodeInternalError, "the server's answer cannot be read: %s", m.problem.Message)
	case line == nil && m.jsonrpc == nil: // too long
		c.log.Warn().Int("limit", c.opt.MaxLine).Msg("dropping a line from the server that is too long")
		return Errorf(mcp.CodeInternalError, "the response is too long: the limit is %d bytes a line",
			c.opt.MaxLine)
	}
	if m.method == nil && (m.jsonrpc != nil || m.result != nil || bytes.HasPrefix(m.err, []byte("{"))) {
		return Errorf(mcp.CodeInternalError, "the server's answer is not a JSON-RPC response: %s",
			m.problem.Message)
	}
	return nil
}

// answerIn returns the id of the answer that a line was meant to be, such as one with NaN in it or with other
// text around it; nil if there is none.
func answerIn(line []byte) []byte {
	begin, end := bytes.IndexByte(line, '{'), bytes.LastIndexByte(line, '}')
	if begin < 0 || !bytes.Contains(line, []byte(`"jsonrpc"`)) ||
		!bytes.Contains(line, []byte(`"result"`)) && !bytes.Contains(line, []byte(`"error"`)) {
		return nil
	}
	if line = line[begin:]; end > begin {
		line = line[:end-begin+1]
	}
	return findID(line[:min(edge, len(line))], line[max(0, len(line)-edge):])
}

// request answers a request from the server.
func (c *Client) request(r *call) {
	var err *Error
	switch {
	case r.method == "ping":
	case c.opt.OnRequest == nil:
		err = Errorf(mcp.CodeMethodNotFound, "method not found: %.100q", r.method)
	default:
		if err = c.incoming.admit(r); err == nil {
			r.start(func(ctx context.Context) (any, error) {
				result, err := c.opt.OnRequest(ctx, r.method, r.params)
				if err != nil && !errors.As(err, new(*Error)) {
					err = Errorf(mcp.CodeInternalError, "%v", err)
				}
				return result, err
			})
			return
		}
	}
	c.answer(r, nil, err)
}

// notification handles a cancellation, and passes on every notification.
func (c *Client) notification(m *message) {
	method := rawjson.Unquote(m.method)
	if method == "notifications/cancelled" {
		c.cancelled(m.params)
	}
	if c.opt.OnNotification != nil {
		c.opt.OnNotification(method, m.params)
	}
}

// Close ends the connection, and stops the server if Dial started it: it writes what has been queued, closes
// the server's stdin, waits, sends TERM to its process group, waits, and sends KILL. It returns an error if
// the server's process failed or did not end. Requests without an answer fail with [ErrClosed].
func (c *Client) Close() error {
	c.closing.Do(func() {
		c.w.finish()
		_ = c.opt.In.Close() // also ends a Write that waits
		<-c.w.done
		if c.child != nil {
			c.child.end()
		}
		// The server closes its output when it exits. If it does not, do not wait for it.
		silent := c.conn.rpc.DisconnectNotify()
		select {
		case <-silent:
		case <-time.After(closeGrace):
		}
		if out, ok := c.opt.Out.(io.Closer); ok {
			_ = out.Close()
			<-silent
			_ = c.incoming.running.Wait(context.Background()) // never fails
		}
	})
	if c.child == nil {
		return nil
	}
	select {
	case <-c.child.exited:
	default:
		return fmt.Errorf("the server has not ended %v after KILL", killGrace)
	}
	if s := c.child.cmd.ProcessState; s != nil && !s.Success() {
		return fmt.Errorf("the server ended with %v", s)
	}
	return nil
}

// Abandon gives up on a server that does not answer: requests fail with [ErrClosed] and the reason, and
// whatever still arrives is dropped. Call Close as well.
func (c *Client) Abandon(reason error) { c.endInput(reason) }

// AwaitAnswers waits until the server's requests that have come are answered, or ctx ends.
func (c *Client) AwaitAnswers(ctx context.Context) { _ = c.incoming.running.Wait(ctx) }
