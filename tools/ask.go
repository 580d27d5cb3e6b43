package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"runnel/internal/shorten"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/run"
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

// Confirm asks the user whether a call of a tool may begin, unless that was confirmed where the call was
// made. refused is the result of the call if the answer is no. A client that cannot ask refuses with an
// error, unless mayRun.
func (c *Call) Confirm(ctx context.Context, tool, question string,
	mayRun bool) (refused *mcp.CallToolResult, err error) {
	if c.Confirmed {
		return nil, nil
	}
	answer, err := c.Ask(ctx, Question{Message: question,
		Schema: json.RawMessage(`{"type":"object","properties":{}}`)})
	switch {
	case errors.Is(err, ErrCannotAsk) && mayRun:
		return nil, nil
	case errors.Is(err, ErrCannotAsk):
		return nil, fmt.Errorf("not run: %s must be confirmed by the user, and %w; the user can run it in "+
			"a terminal: runnel call %[1]s", tool, err)
	case err != nil:
		return nil, fmt.Errorf("asking the user: %w", err)
	case answer.Action == mcp.ElicitAccept:
		return nil, nil
	case answer.Action == mcp.ElicitDecline:
		return mcp.ErrorResult("not run: the user declined"), nil
	default:
		return mcp.ErrorResult("not run: the user dismissed the question"), nil
	}
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

// Question is what a tool asks the client's user. Pass it to [Call.Ask].
type Question struct {
	Message string
	// Schema of the answer's content: a JSON Schema object with properties of primitive types
	// (2025-06-18 client/elicitation, "Requested Schema").
	Schema json.RawMessage
}

// Answer is the user's reaction to a question.
// Call.Ask returns it; only an accepted one has content.
type Answer struct {
	Action  mcp.ElicitAction
	Content json.RawMessage // with mcp.ElicitAccept: what the schema asks for
}

// ErrCannotAsk is returned by [Call.Ask] if the client has no way to ask its user.
var ErrCannotAsk = errors.New("this client cannot ask its user: it does not support elicitation")

// check returns an error if the content of an answer is invalid.
func (q *Question) check(content json.RawMessage) error { return run.CheckForm(q.Schema, content) }

// fits returns an error if a client cannot show this question, though it shows others.
func (q *Question) fits(c *rpc.Caller) error {
	if c != nil && !c.Version.MultiSelect && q.takesSeveral() {
		return fmt.Errorf("this client cannot ask its user: protocol version %s has no field of several choices", c.Version.Name)
	}
	return nil
}

// takesSeveral reports whether the form has a field with several choices, the only kind of field that is an
// array (2025-11-25 client/elicitation, "Multi-select enum").
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

// ask asks the user.
func (a *audience) ask(ctx context.Context, q Question) (Answer, error) {
	if a.parent != nil {
		return a.parent.ask(ctx, q)
	}
	if !a.canDo("elicitation/create", nil) {
		return Answer{}, ErrCannotAsk
	}
	c := a.caller() // nil in a worker
	if err := q.fits(c); err != nil {
		return Answer{}, err
	}
	if a.handedOver(c) {
		return Answer{}, ErrCannotAsk
	}
	s := a.run.Secrets()
	q.Message, q.Schema = shorten.Clip(s.String(q.Message), maxQuestion), s.JSON(q.Schema)
	params := rawjson.Encode(mcp.ElicitParams{Message: q.Message, RequestedSchema: q.Schema})
	question := &run.Question{Request: mcp.InputRequest{Method: "elicitation/create", Params: params},
		Message: q.Message, Check: q.check}
	response, err := a.putForm(ctx, question)
	// The client refused, or the runnel that should have asked it.
	if refused, ok := errors.AsType[*rpc.Error](err); ok {
		switch err = errors.New(refused.Message); {
		case refused.Code == mcp.CodeMethodNotFound && !question.Sent:
			err = ErrCannotAsk
		case question.Sent:
			// The client's error is not an error of its own call: it is for the tool to handle.
			err = fmt.Errorf("the client could not ask its user: %s", refused.Message)
		}
	}
	if err != nil {
		return Answer{}, err
	}
	r, err := question.Read(response)
	if err != nil {
		return Answer{}, fmt.Errorf("the client's answer %w", err)
	}
	return Answer{Action: r.Action, Content: r.Content}, nil
}

// putForm asks the user by a form, and returns the answer as it came.
func (a *audience) putForm(ctx context.Context, q *run.Question) (json.RawMessage, error) {
	c := a.caller() // nil in a worker
	if q.Sent = c != nil && !c.Version.Stateless; !q.Sent {
		return a.put(ctx, q, nil)
	}
	if err := a.current.Load().Await(ctx); err != nil {
		return nil, err
	}
	params := a.related(q.Request.Params)
	return a.put(ctx, q, func(ctx context.Context) (json.RawMessage,
		error) {
		return a.request(ctx, q.Request.Method, params)
	})
}

// related returns the params of a question with the task that it belongs to, if the client knows that.
func (a *audience) related(params json.RawMessage) json.RawMessage {
	if d := a.current.Load(); (d.Handle || a.left.Load()) && d.Caller.Version.Tasks {
		return rawjson.Merge(params, rawjson.WithMember(nil, "_meta", tasks.Related(a.run.ID())))
	}
	return params
}

// request sends a question to a client of the handshake era.
func (a *audience) request(ctx context.Context, method string,
	params json.RawMessage) (response json.RawMessage, err error) {
	if err = a.caller().Request(ctx, method, params, &response); errors.Is(err, rpc.ErrClosed) {
		err = errNobody
	}
	return response, err
}

// pass asks the client what another server asks. A client of the stateless era gets it with the answer to the
// call, or with its task.
func (a *audience) pass(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if a.parent != nil {
		return a.parent.pass(ctx, method, params)
	}
	c, form := a.caller(), method == "elicitation/create" && !isByURL(params)
	handshake := c != nil && c.Era == rpc.Handshake
	switch {
	case form && (!a.canDo(method, params) || a.handedOver(c)):
		return nil, ErrCannotAsk
	case !a.canDo(method, params) || a.handedOver(c):
		return nil, errCannotDo(method)
	case handshake && !form:
		return Request(ctx, c, method, params)
	case !handshake && len(params) > maxAsked/maxTurns:
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "%s: the params have %d bytes: the limit is %d", method,
			len(params), maxAsked/maxTurns)
	}
	question := &run.Question{Request: mcp.InputRequest{Method: method, Params: params},
		Message: "waits for the client: " + method}
	if !form {
		return a.put(ctx, question, nil)
	}
	question.Message = shorten.Clip(rawjson.StringMember(params, "message"), maxQuestion)
	return a.putForm(ctx, question)
}

// canDo reports whether the client accepts a request.
func (a *audience) canDo(method string, params json.RawMessage) bool {
	if c := a.caller(); c != nil {
		return CanDo(c, method, params)
	}
	return asksFor(&a.far.Asks, method, params)
}

// handedOver reports whether the call has become a task whose questions its client does not see.
func (a *audience) handedOver(c *rpc.Caller) bool {
	return c != nil && c.Version.Stateless && a.left.Load() && !c.Capabilities.Extends(mcp.ExtensionTasks)
}

// put opens a question when its turn comes, and closes it when it is answered or can no longer be
// answered. If request is set, it also asks the client immediately.
func (a *audience) put(ctx context.Context, q *run.Question,
	request func(context.Context) (json.RawMessage, error)) (response json.RawMessage, err error) {
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := a.open(q); err != nil {
		return nil, err
	}
	// This is deferred so that a panic leaves no question open, since the task's end would wait for it. Done
	// comes first: Close waits for an end that has begun, and that end waits for Done.
	defer func() {
		if closed := q.Close(); err == nil {
			err = closed
		}
	}()
	defer a.questions.Done()
	return a.await(ctx, q, request)
}

// open opens a question, which a.questions then waits for.
func (a *audience) open(q *run.Question) error {
	select {
	case <-a.unreachable(): // otherwise the client could still learn of the question before it is withdrawn
		return errNobody
	default:
	}
	if !a.opens() {
		return tasks.ErrEnded
	}
	err := a.run.Ask(q)
	if err != nil {
		a.questions.Done()
	}
	return err
}

// await waits for the answer, wherever it comes from.
func (a *audience) await(ctx context.Context, q *run.Question,
	request func(context.Context) (json.RawMessage, error)) (response json.RawMessage, err error) {
	var late <-chan time.Time
	if a.caller() == nil {
		late = time.After(parkedTTL)
	}
	var elicited json.RawMessage
	var failed error
	var requested chan struct{} // nil: the client is not asked by a request
	if request != nil {
		ctx, cancel := context.WithCancelCause(ctx)
		requested = make(chan struct{})
		go func() {
			defer close(requested)
			elicited, failed = request(ctx)
		}()
		defer func() {
			cancel(cmp.Or(err, errAnswered))
			<-requested // the client has been told that the question is withdrawn
		}()
	}
	select {
	case <-requested:
		return elicited, failed
	case response = <-q.Answered():
	case err = <-q.Refused():
	case <-late:
		err = errLate
	case <-a.unreachable():
		err = errNobody
	case <-a.end.Done():
		err = tasks.ErrEnded
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return response, err
}

// unreachable returns a channel that is closed when nobody can answer any more, although the call continues.
// It is nil if the end of the input also ends the call, or the question's own request.
func (a *audience) unreachable() <-chan struct{} {
	if c := a.caller(); c != nil && c.Version.Stateless && c.Patient() {
		return c.InputEnded()
	}
	return nil
}

// errNobody is returned by Ask when the session is closed while a question is open.
var errNobody = errors.New("the question cannot be answered: the client has closed the session")

// errLate is returned by Ask in a worker when no client has answered: the runnel that made the call may be
// gone, and nobody has looked for the task elsewhere.
var errLate = fmt.Errorf("the question was not answered within %v", parkedTTL)

// errAnswered is the reason for withdrawing a question that tasks/update has answered.
var errAnswered = errors.New("answered elsewhere")

// maxQuestion is the length limit of a question, in bytes: a person has to read it.
const maxQuestion = 16 << 10

// maxTurns is how many questions of a call can be open at once in the stateless era, where all of them go out
// on one line: that many fit, even with messages of control characters.
const maxTurns = 4

const _ = uint(mcp.MaxContent - maxTurns*(6*maxQuestion+MaxQuestionSchema))

// MaxQuestionSchema limits the schema of a tool's question, in bytes.
const MaxQuestionSchema = 64 << 10
