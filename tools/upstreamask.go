package tools

import (
	"context"
	"encoding/json"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
)

// Request puts a request that is no form, such as sampling/createMessage, to the client of the call. One of the stateless era finds it in
// the answer to the call, or in its task.
func (c *Call) Request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	switch {
	case c.caller.Era == rpc.Handshake:
		return Request(ctx, c.caller, method, params)
	case c.askOther == nil:
		return nil, errCannotDo(method)
	}
	return c.askOther(ctx, method, params)
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

// askOther puts a request of a server's that is no form to the client of a call, in the stateless era: who waits for the call's answer, or
// for its task, finds it there, as asking.ask does with forms.
func (a *asking) askOther(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	c := a.d.current.Load().caller
	if !canDo(c, method, params) || a.run.HasHandle() && !c.Capabilities.Extends(mcp.ExtensionTasks) {
		return nil, errCannotDo(method)
	}
	if len(params) > maxAsked/maxTurns {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "%s: the params have %d bytes: the limit is %d", method, len(params), maxAsked/maxTurns)
	}
	leave, err := a.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	question := &tasks.Question{Request: mcp.InputRequest{Method: method, Params: params}, Message: "waits for the client: " + method}
	if err := a.run.Ask(question); err != nil {
		a.open.Done()
		return nil, err
	}
	var unreachable <-chan struct{} // closed when nobody can answer any more
	if c.Patient() {
		unreachable = c.InputEnded()
	}
	var answer json.RawMessage
	select {
	case answer = <-question.Answered():
	case <-unreachable:
		err = errNobody
	case <-a.end.Done():
		err = tasks.ErrEnded
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	a.open.Done() // first: who withdraws the questions holds what Close needs
	if closed := question.Close(); err == nil {
		err = closed
	}
	return answer, err
}

// enter takes a turn to ask, of which there are so many at once, and opens a question: a.open is to be told when it is answered.
func (a *asking) enter(ctx context.Context) (leave func(), err error) {
	a.mu.Lock()
	if a.turn == nil {
		a.turn = make(chan struct{}, maxTurns)
	}
	a.mu.Unlock()
	select {
	case a.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.end.IsSet() {
		<-a.turn
		return nil, tasks.ErrEnded
	}
	a.open.Add(1)
	return func() { <-a.turn }, nil
}

// maxAsked is how long a request of a server's to the client may be, in bytes: its line stays below the 1 MiB that clients read.
const maxAsked = mcp.MaxContent

// canDo reports whether a client takes a request of a server's.
func canDo(c *rpc.Caller, method string, params json.RawMessage) bool {
	switch method {
	case "sampling/createMessage":
		return c.Capabilities.Sampling != nil
	case "roots/list":
		return c.Capabilities.Roots != nil
	case "elicitation/create":
		e := c.Capabilities.Elicitation
		if rawjson.StringMember(params, "mode") == "url" {
			return e != nil && e.URL != nil
		}
		return c.Version.Elicitation && c.Capabilities.AsksByForm()
	}
	return false
}

func errCannotDo(method string) *rpc.Error {
	return rpc.Errorf(mcp.CodeMethodNotFound, "%s: the client does not support it", method)
}
