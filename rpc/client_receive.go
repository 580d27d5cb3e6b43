package rpc

import (
	"bytes"
	"context"
	"errors"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

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
		c.log.Warn().Bytes("id", m.id).Str("problem", m.problem.Message).Msg("an answer of the server cannot be read: its request fails")
		return Errorf(mcp.CodeInternalError, "the server's answer cannot be read: %s", m.problem.Message)
	case line == nil && m.jsonrpc == nil: // too long
		c.log.Warn().Int("limit", c.opt.MaxLine).Msg("dropping a line from the server that is too long")
		return Errorf(mcp.CodeInternalError, "the response is too long: the limit is %d bytes a line", c.opt.MaxLine)
	}
	if m.method == nil && (m.jsonrpc != nil || m.result != nil || bytes.HasPrefix(m.err, []byte("{"))) {
		return Errorf(mcp.CodeInternalError, "the server's answer is not a JSON-RPC response: %s", m.problem.Message)
	}
	return nil
}

// answerIn returns the id of the answer that a line was meant to be, such as one with NaN in it or with other
// text around it; nil if there is none.
func answerIn(line []byte) []byte {
	begin, end := bytes.IndexByte(line, '{'), bytes.LastIndexByte(line, '}')
	if begin < 0 || !bytes.Contains(line, []byte(`"jsonrpc"`)) || !bytes.Contains(line, []byte(`"result"`)) && !bytes.Contains(line, []byte(`"error"`)) {
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
