package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// Request is a request to the server.
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

// Response is an answer of the server: a result, or an error.
type Response struct {
	Result json.RawMessage
	Err    *Error
}

// params are those of a request, nil if there are none. In the stateless era their _meta says what initialize would have.
func (c *Client) params(r *Request) (any, error) {
	params, err := encodeParams(r.Params)
	if err == nil && c.version != nil && c.version.Stateless {
		params, err = c.withMeta(params, r.Capabilities)
	}
	if err != nil || params == nil {
		return nil, err
	}
	return json.RawMessage(params), nil
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
		for it := rawjson.MembersOf(params); it.Next(); {
			if string(it.Name) != "_meta" {
				appendMember(&merged, it.Quoted, it.Value)
				continue
			}
			var theirs map[string]json.RawMessage
			if err := json.Unmarshal(it.Value, &theirs); err != nil {
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
	appendMember(&merged, []byte(`"_meta"`), meta)
	merged.WriteByte('}')
	return merged.Bytes(), nil
}
