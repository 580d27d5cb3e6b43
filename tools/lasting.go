package tools

import (
	"context"
	"fmt"

	"runnel/internal/shorten"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/run"
)

// maxLasting is how many lasting questions of a call are open at the same time: all that are open must fit
// into one line, with those of Ask.
const maxLasting = 4

const (
	maxLastingQuestion = 8 << 10 // bytes of its message, which a person has to read
	maxLastingSchema   = 4 << 10
)

const _ = uint(mcp.MaxContent - maxTurns*(6*maxQuestion+MaxQuestionSchema) -
	maxLasting*(6*maxLastingQuestion+maxLastingSchema))

// AskLasting asks the client of the call, if it can ask its user, and every client that finds the question in
// the task; the first answer counts. A user who only closes the dialog (mcp.ElicitCancel) leaves it open for
// others. The task is input_required as long as it lives, also while no process runs it; name, which is asked
// once in a task, lets the call find the answer when it asks again in another process. Up to maxLasting are
// open at the same time, and others wait; the client of the call is asked one after the other. The caller
// notes the answer (Call.Remember) and then calls done. AskLasting fails if ctx or the task ends.
func (c *Call) AskLasting(ctx context.Context, name string, q Question) (answer Answer, done func(),
	_ error) {
	if len(q.Schema) > maxLastingSchema {
		return Answer{}, nil, fmt.Errorf("the schema of a lasting question has %d bytes; the limit is %d",
			len(q.Schema), maxLastingSchema)
	}
	a := c.audience
	select {
	case a.lasting <- struct{}{}:
	case <-ctx.Done():
		return Answer{}, nil, context.Cause(ctx)
	}
	question, err := a.askLasting(ctx, name, q)
	if err != nil {
		<-a.lasting
		return Answer{}, nil, err
	}
	done = func() {
		_ = question.Close() // it fails if the task has ended
		a.questions.Done()
		<-a.lasting
	}
	if answer, err = a.awaitLasting(ctx, question); err != nil {
		done()
		return Answer{}, nil, err
	}
	return answer, done, nil
}

// askLasting opens the question.
func (a *audience) askLasting(ctx context.Context, name string, q Question) (*run.Question, error) {
	s := a.run.Secrets()
	q.Message, q.Schema = shorten.Clip(s.String(q.Message), maxLastingQuestion), s.JSON(q.Schema)
	question := &run.Question{Name: name, Message: q.Message, Check: q.check,
		Request: mcp.InputRequest{Method: "elicitation/create",
			Params: rawjson.Encode(mcp.ElicitParams{Message: q.Message, RequestedSchema: q.Schema})}}
	if c := a.caller(); c != nil && (!a.canDo(question.Request.Method, nil) || a.handedOver(c)) {
		a.mute.Store(true) // before the question is open: the answer to the call would have it
	}
	if !a.opens() {
		return nil, tasks.ErrEnded
	}
	err := a.run.Ask(question)
	if err != nil {
		a.questions.Done()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}
	if a.mute.Load() {
		a.unasked.Set()
	}
	return question, err
}

// awaitLasting waits for the answer, wherever it comes from.
func (a *audience) awaitLasting(ctx context.Context, q *run.Question) (Answer, error) {
	asking, cancel := context.WithCancelCause(ctx)
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		a.elicitLasting(asking, q)
	}()
	defer func() {
		cancel(errAnswered)
		<-asked // the client has been told that the question is withdrawn
	}()
	for {
		select {
		case response := <-q.Answered():
			if r, err := q.Read(response); err == nil {
				return Answer{Action: r.Action, Content: r.Content}, nil
			}
		case <-a.end.Done():
			return Answer{}, tasks.ErrEnded
		case <-ctx.Done():
			return Answer{}, context.Cause(ctx)
		}
	}
}

// elicitLasting sends the question to the client of the call, if that is of the handshake era and can ask its
// user, when its turn comes, unless a client that waits for the task's result has got it before.
func (a *audience) elicitLasting(ctx context.Context, q *run.Question) {
	c := a.caller()
	if c == nil || c.Era != rpc.Handshake || !a.canDo(q.Request.Method, nil) || a.handedOver(c) ||
		a.current.Load().Await(ctx) != nil {
		return
	}
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return
	}
	if !q.Claim() {
		return
	}
	response, err := a.request(ctx, q.Request.Method, a.related(q.Request.Params))
	if err == nil {
		_, err = q.Read(response)
	}
	if err == nil { // what is no answer leaves it to others
		_ = q.Answer(ctx, response) // it cannot fail here
	} else if ctx.Err() == nil {
		a.mute.Store(true)
		a.unasked.Set()
	}
	q.Release()
}
