package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tools/schema"
	"runnel/tools/text"
)

// Question is what a tool asks the user of the client.
type Question struct {
	Message string
	// Schema of the answer's content: a JSON Schema object with properties of primitive types
	// (2025-06-18 client/elicitation, "Requested Schema").
	Schema json.RawMessage
}

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

// takesSeveral reports whether the form has a field of several choices, the only kind of field that is an array (2025-11-25
// client/elicitation, "Multi-select enum").
func (q *Question) takesSeveral() bool {
	var form struct {
		Properties map[string]struct {
			Type string `json:"type"`
		} `json:"properties"`
	}
	_ = json.Unmarshal(q.Schema, &form) // what is of the wrong type reads as absent
	for _, field := range form.Properties {
		if field.Type == "array" {
			return true
		}
	}
	return false
}

// Answer is what the user did with a question.
type Answer struct {
	Action  mcp.ElicitAction
	Content json.RawMessage // with mcp.ElicitAccept: what the schema asked for
}

// ErrCannotAsk is what Ask returns when the client has no way to ask its user.
var ErrCannotAsk = errors.New("this client cannot ask its user: it does not support elicitation")

// Ask asks the user and waits for the answer, for as long as ctx lasts; meanwhile the task is input_required.
// It returns ErrCannotAsk at once if the client cannot ask. Several questions may be asked at once.
func (c *Call) Ask(ctx context.Context, q Question) (Answer, error) {
	if c.ask == nil {
		return Answer{}, ErrCannotAsk
	}
	return c.ask(ctx, q)
}

// CanAsk reports whether the client that made the call can ask its user.
func (c *Call) CanAsk() bool {
	return c.caller != nil && c.caller.Version.Elicitation && c.caller.Capabilities.AsksByForm()
}

// asking is how a call asks the client it came from. In the handshake era the question goes out as elicitation/create,
// at once and not only when tasks/result is called: some hosts only ever call tasks/get. In the stateless era the
// server writes no requests: who waits for the call's answer, or for its task, finds the question there.
type asking struct {
	d   *delivery
	run *tasks.Run

	mu   sync.Mutex
	turn chan struct{}  // holds an element for each open question, as many as may be; nil before the first
	end  rpc.Latch      // of the task
	open sync.WaitGroup // questions
}

// ask asks. Who is asked is the client of the newest request of the call: capabilities are each request's own.
func (a *asking) ask(ctx context.Context, q Question) (Answer, error) {
	c := a.d.current.Load().caller
	if !c.Version.Elicitation || !c.Capabilities.AsksByForm() {
		return Answer{}, ErrCannotAsk
	}
	if !c.Version.MultiSelect && q.takesSeveral() {
		return Answer{}, fmt.Errorf("this client cannot ask its user: protocol version %s has no field of several choices", c.Version.Name)
	}
	most := 1 // so that each is told as a status of its own
	if c.Version.Stateless {
		if a.run.HasHandle() && !c.Capabilities.Extends(mcp.ExtensionTasks) {
			return Answer{}, ErrCannotAsk // a call that was handed over: its client sees no questions of tasks
		}
		most = maxTurns
	} else if err := a.d.await(ctx); err != nil {
		return Answer{}, err
	}
	a.mu.Lock()
	if a.turn == nil {
		a.turn = make(chan struct{}, most)
	}
	a.mu.Unlock()
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return Answer{}, context.Cause(ctx)
	}
	return a.put(ctx, q)
}

// put puts a question to the user.
func (a *asking) put(ctx context.Context, q Question) (answer Answer, err error) {
	select {
	case <-a.unreachable(): // else the client could still be told of the question before it is withdrawn
		return Answer{}, errNobody
	default:
	}
	a.mu.Lock()
	if a.end.IsSet() {
		a.mu.Unlock()
		return Answer{}, tasks.ErrEnded
	}
	a.open.Add(1)
	a.mu.Unlock()
	q.Message = text.Clip(q.Message, maxQuestion)
	params := mcp.ElicitParams{Message: q.Message, RequestedSchema: q.Schema}
	question := &tasks.Question{
		Request: mcp.InputRequest{Method: "elicitation/create", Params: encode(params)},
		Message: q.Message,
		Sent:    !a.d.caller.Version.Stateless,
		Check:   q.check,
	}
	if err := a.run.Ask(question); err != nil {
		a.open.Done()
		return Answer{}, err
	}
	// Deferred, so that a panic leaves no question open, for which the end of the task would wait. Done comes first: Close waits for
	// an end that has begun, and that waits for Done.
	defer func() {
		if closed := question.Close(); err == nil {
			err = closed
		}
	}()
	defer a.open.Done()
	return a.await(ctx, question, params)
}

// elicited is what became of an elicitation/create.
type elicited struct {
	result json.RawMessage
	err    error
}

// answer is what the tool is told of it.
func (e *elicited) answer(q *tasks.Question) (Answer, error) {
	refused, isRefused := errors.AsType[*rpc.Error](e.err)
	switch {
	case isRefused:
		// The client's error says nothing of the call that it made: it is the tool's to deal with.
		return Answer{}, fmt.Errorf("the client could not ask its user: %s", refused.Message)
	case errors.Is(e.err, rpc.ErrClosed):
		return Answer{}, errNobody
	case e.err != nil:
		return Answer{}, e.err
	}
	return readAnswer(q, e.result)
}

// readAnswer is what the tool is told of a client's answer.
func readAnswer(q *tasks.Question, response json.RawMessage) (Answer, error) {
	r, err := q.Read(response)
	if err != nil {
		return Answer{}, fmt.Errorf("the client's answer %w", err)
	}
	return Answer{Action: r.Action, Content: r.Content}, nil
}

// await waits for the answer, from wherever it comes.
func (a *asking) await(ctx context.Context, q *tasks.Question, params mcp.ElicitParams) (answer Answer, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var requested chan elicited // nil: the server writes no requests
	c := a.d.caller
	if !c.Version.Stateless {
		if a.run.HasHandle() && c.Version.Tasks {
			params.Meta = tasks.Related(a.run.ID())
		}
		requested = make(chan elicited, 1)
		go func() {
			var e elicited
			e.err = c.Request(ctx, "elicitation/create", params, &e.result)
			requested <- e
		}()
	}
	select {
	case e := <-requested:
		return e.answer(q)
	case response := <-q.Answered():
		answer, err = readAnswer(q, response)
		cancel(errAnswered)
	case <-a.unreachable():
		err = errNobody
	case <-a.end.Done():
		err = tasks.ErrEnded
		cancel(err)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if requested != nil {
		<-requested // the client has been told that the question is withdrawn
	}
	return answer, err
}

// unreachable is closed when nobody can answer any more, though the call goes on. It is nil where the end of the input ends the call, too,
// or the question's own request.
func (a *asking) unreachable() <-chan struct{} {
	c := a.d.caller
	if c.Version.Stateless && c.Patient() {
		return c.InputEnded()
	}
	return nil
}

// errNobody is what Ask returns when the session is closed while a question is open.
var errNobody = errors.New("nobody can answer the question: the input has ended")

// errAnswered is why a question is withdrawn that was answered by tasks/update.
var errAnswered = errors.New("answered elsewhere")

// withdraw takes open questions back and lets no new ones through; when it returns the client has been told
// of it, as far as it reads.
func (a *asking) withdraw() {
	a.mu.Lock()
	a.end.Set() // under mu: after it, no question is opened
	a.mu.Unlock()
	a.open.Wait()
}

// maxQuestion is how long a question may be, in bytes: a person reads it.
const maxQuestion = 16 << 10

// maxTurns is how many questions of a call are open at once in the stateless era, where all of them go out in one line:
// they fit, with messages of control characters.
const maxTurns = 4

const _ = uint(mcp.MaxContent - maxTurns*(6*maxQuestion+maxQuestionSchema))

// maxQuestionSchema is how large the schema of a server's question may be, in bytes as it is written to runnel's client.
const maxQuestionSchema = 64 << 10
