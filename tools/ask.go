package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tools/schema"
)

// check says what is wrong with the content of an answer. Servers "SHOULD validate received data matches the requested
// schema" (client/elicitation, "Security Considerations"). No content is an empty form.
func (q *Question) check(content json.RawMessage) error {
	if len(content) == 0 {
		content = json.RawMessage("{}")
	}
	if !rawjson.IsObject(content) {
		return errors.New("has content that is not an object")
	}
	if len(q.Schema) == 0 {
		return nil
	}
	if err := schema.New(q.Schema, "field").Check(content); err != nil {
		return fmt.Errorf("has %w", err)
	}
	return nil
}

// fits says why a client cannot show a question, though it shows others.
func (q *Question) fits(c *rpc.Caller) error {
	if c != nil && !c.Version.MultiSelect && q.takesSeveral() {
		return fmt.Errorf("this client cannot ask its user: protocol version %s has no field of several choices", c.Version.Name)
	}
	return nil
}

// takesSeveral reports whether the form has a field of several choices, the only kind of field that is an array (2025-11-25
// client/elicitation, "Multi-select enum").
func (q *Question) takesSeveral() bool {
	var form struct {
		Properties map[string]struct {
			Type string `json:"type"`
		} `json:"properties"`
	}
	_ = json.Unmarshal(q.Schema, &form) // a member of the wrong type reads as absent
	for _, field := range form.Properties {
		if field.Type == "array" {
			return true
		}
	}
	return false
}

// Ask asks the user and waits for the answer, for as long as ctx lasts; meanwhile the task is input_required.
// It returns ErrCannotAsk at once if the client cannot ask. Several questions may be asked at once.
func (c *Call) Ask(ctx context.Context, q Question) (Answer, error) {
	if c.audience == nil {
		return Answer{}, ErrCannotAsk
	}
	return c.audience.ask(ctx, q)
}

// Asks is what the client that made the call can be asked for: elicitation, sampling and roots.
func (c *Call) Asks() mcp.ClientCapabilities {
	switch {
	case c.audience == nil:
		return mcp.ClientCapabilities{}
	case c.caller == nil:
		return c.audience.far.Asks
	}
	can := &c.caller.Capabilities
	asks := mcp.ClientCapabilities{Elicitation: can.Elicitation, Sampling: can.Sampling, Roots: can.Roots}
	if !c.caller.Version.Elicitation {
		asks.Elicitation = nil
	}
	return asks
}

// CanAsk reports whether the client that made the call can ask its user.
func (c *Call) CanAsk() bool {
	asks := c.Asks()
	return asks.AsksByForm()
}

// Lacks is the error for a client that cannot answer a request, nil if it can.
func (c *Call) Lacks(method string) error {
	switch {
	case c.caller == nil && c.audience != nil && asksFor(&c.audience.far.Asks, method, nil):
		return nil
	case c.caller != nil && (c.caller.Version.Stateless || canDo(c.caller, method, nil)):
		return need(c.caller, method, nil)
	}
	return errCannotDo(method)
}

// Request puts a request that is not a form, such as sampling/createMessage, to the client of the call. One of the stateless era finds it in
// the answer to the call, or in its task.
func (c *Call) Request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if c.audience == nil {
		return nil, errCannotDo(method)
	}
	if c.caller != nil && c.caller.Era == rpc.Handshake {
		return Request(ctx, c.caller, method, c.run.Secrets().JSON(params))
	}
	return c.audience.askOther(ctx, method, params)
}

// Request puts a request to a client of the handshake era.
func Request(ctx context.Context, c *rpc.Caller, method string, params json.RawMessage) (answer json.RawMessage, err error) {
	if !canDo(c, method, params) {
		return nil, errCannotDo(method)
	}
	if len(params) > maxAsked {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "%s: the params have %d bytes: the limit is %d", method, len(params), maxAsked)
	}
	err = c.Request(ctx, method, params, &answer)
	return answer, err
}

// maxAsked is how long a request of a server's to the client may be, in bytes: its line stays below the 1 MiB that clients read.
const maxAsked = mcp.MaxContent

// canDo reports whether a client takes a request of a server's.
func canDo(c *rpc.Caller, method string, params json.RawMessage) bool {
	form := method == "elicitation/create" && !isByURL(params)
	return asksFor(&c.Capabilities, method, params) && (c.Version.Elicitation || !form)
}

// asksFor reports whether capabilities take a request of a server's, in versions that know it.
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

// isByURL reports whether a request to ask the user sends the user to a page; without params it is a form.
func isByURL(params json.RawMessage) bool {
	return params != nil && rawjson.StringMember(params, "mode") == "url"
}

func errCannotDo(method string) *rpc.Error {
	return rpc.Errorf(mcp.CodeMethodNotFound, "%s: the client does not support it", method)
}

// need refuses to put a request to a client that cannot answer it: "If processing a request requires a capability the client did not
// include [...], the server MUST return a MissingRequiredClientCapabilityError" (2026-07-28 basic, "_meta").
func need(c *rpc.Caller, method string, params json.RawMessage) error {
	if canDo(c, method, params) {
		return nil
	}
	what, required := " for "+method, requiredFor[method]
	if method == "elicitation/create" && !isByURL(params) {
		what, required = ": elicitation by form", `{"requiredCapabilities":{"elicitation":{"form":{}}}}`
	}
	return &rpc.Error{Code: mcp.CodeMissingCapability, Message: "missing required client capability" + what, Data: json.RawMessage(required)}
}

// requiredFor is the data of the error about a missing capability, by what is asked.
var requiredFor = map[string]string{
	"elicitation/create":     `{"requiredCapabilities":{"elicitation":{"url":{}}}}`,
	"sampling/createMessage": `{"requiredCapabilities":{"sampling":{}}}`,
	"roots/list":             `{"requiredCapabilities":{"roots":{}}}`,
}
