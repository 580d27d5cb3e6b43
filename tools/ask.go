package tools

import (
	"context"
	"encoding/json"

	"runnel/rpc/mcp"
)

// Ask asks the user and waits for the answer as long as ctx lasts; meanwhile the task is input_required. If
// the client cannot ask, it returns ErrCannotAsk at once. Several questions may be open at the same time.
func (c *Call) Ask(ctx context.Context, q Question) (Answer, error) {
	if c.audience == nil {
		return Answer{}, ErrCannotAsk
	}
	return c.audience.ask(ctx, q)
}

// Asks returns what the client that made the call can be asked for: elicitation, sampling and roots.
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
// Use it to choose another way before a question is made.
func (c *Call) CanAsk() bool {
	asks := c.Asks()
	return asks.AsksByForm()
}

// Request sends the call's client a request of another server, and returns its answer; both pass as they are.
// Only a client of the handshake era can be sent what runnel does not know. A client of the stateless era
// finds the request in the answer to the call, or in its task. A form is a question of the call's task: if it
// cannot be put, Request returns ErrCannotAsk.
func (c *Call) Request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if c.audience == nil {
		return nil, errCannotDo(method)
	}
	return c.audience.pass(ctx, method, c.run.Secrets().JSON(params))
}
