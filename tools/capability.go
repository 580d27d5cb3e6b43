package tools

import (
	"context"
	"crypto/rand"
	"encoding/json"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// CanDo reports whether a client accepts a request from a server.
func CanDo(c *rpc.Caller, method string, params json.RawMessage) bool {
	form := method == "elicitation/create" && !isByURL(params)
	if _, known := requiredFor[method]; !known {
		return c.Era == rpc.Handshake // the client answers that it does not know it
	}
	return asksFor(&c.Capabilities, method, params) && (c.Version.Elicitation || !form)
}

// asksFor reports whether capabilities cover a request from a server, in versions that know it.
func asksFor(c *mcp.ClientCapabilities, method string, params json.RawMessage) bool {
	switch method {
	case "sampling/createMessage":
		return c.Sampling != nil
	case "roots/list":
		return c.Roots != nil
	case "elicitation/create":
		if isByURL(params) {
			return c.Elicitation != nil && c.Elicitation.URL != nil
		}
		return c.AsksByForm()
	}
	return false
}

// isByURL reports whether a request sends the user to a page; without params it is a form.
func isByURL(params json.RawMessage) bool {
	return params != nil && rawjson.StringMember(params, "mode") == "url"
}

func errCannotDo(method string) *rpc.Error {
	return rpc.Errorf(mcp.CodeMethodNotFound, "%s: the client does not support it", method)
}

// need refuses to send a request to a client that cannot answer it: "If processing a request requires a
// capability the client did not include [...], the server MUST return a MissingRequiredClientCapabilityError"
// (2026-07-28 basic, "_meta").
func need(c *rpc.Caller, method string, params json.RawMessage) error {
	if CanDo(c, method, params) {
		return nil
	}
	what, required := " for "+method, requiredFor[method]
	if method == "elicitation/create" && !isByURL(params) {
		what, required = ": elicitation by form", `{"requiredCapabilities":{"elicitation":{"form":{}}}}`
	}
	return &rpc.Error{Code: mcp.CodeMissingCapability, Message: "missing required client capability" + what,
		Data: json.RawMessage(required)}
}

// requiredFor is the data of the error about a missing capability, by method.
var requiredFor = map[string]string{
	"elicitation/create":     `{"requiredCapabilities":{"elicitation":{"url":{}}}}`,
	"sampling/createMessage": `{"requiredCapabilities":{"sampling":{}}}`,
	"roots/list":             `{"requiredCapabilities":{"roots":{}}}`,
}

// maxAsked is the length limit of a server's request to the client, in bytes: its line stays below the 1 MiB
// that clients accept.
const maxAsked = mcp.MaxContent

// Request sends a request to a client of the handshake era. A Tool uses it to pass on what another server
// asks.
func Request(ctx context.Context, c *rpc.Caller, method string,
	params json.RawMessage) (answer json.RawMessage, err error) {
	if !CanDo(c, method, params) {
		return nil, errCannotDo(method)
	}
	if len(params) > maxAsked {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "%s: the params have %d bytes: the limit is %d", method,
			len(params), maxAsked)
	}
	if method == "elicitation/create" && isByURL(params) && rawjson.Member(params, "elicitationId") == nil {
		// required until 2025-11-25; servers of 2026-07-28 have none.
		params = rawjson.WithMember(params, "elicitationId", rand.Text())
	}
	err = c.Request(ctx, method, params, &answer)
	return answer, err
}
