package tools

import (
	"context"
	"encoding/json"

	"runnel/rpc"
	"runnel/rpc/mcp"
)

// Ask asks the user and waits for the answer as long as ctx lasts; meanwhile the task is input_required. If the client cannot ask, it
// returns ErrCannotAsk at once. Several questions may be open at the same time.
func (c *Call) Ask(ctx context.Context, q Question) (Answer, error) {
	if c.audience == nil {
		return Answer{}, ErrCannotAsk
	}
	return c.audience.ask(ctx, q)
}

// Asks returns what the client that made the call can be asked for: elicitation, sampling and roots.
// Use it to tell another server what may be asked through this call.
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

// Lacks returns the error for a client that cannot answer a request, nil if it can.
func (c *Call) Lacks(method string) error {
	switch {
	case c.caller == nil && c.audience != nil && asksFor(&c.audience.far.Asks, method, nil):
		return nil
	case c.caller != nil && (c.caller.Version.Stateless || canDo(c.caller, method, nil)):
		return need(c.caller, method, nil)
	}
	return errCannotDo(method)
}

// Request sends the call's client a request that is not a form, such as sampling/createMessage. A client of the stateless era finds it in
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
