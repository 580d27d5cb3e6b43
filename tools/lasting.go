package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"runnel/internal/shorten"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/run"
)

// AskLasting asks the client of the call, if it can ask its user, and every client that finds the question in
// the task; the first answer counts. The task is input_required as long as it lives, also while no process
// runs it; name, which is asked once in a task, lets the call find the answer when it asks again in another
// process. The caller notes the answer (Call.Remember) and then calls done. AskLasting fails if ctx or the
// task ends.
func (c *Call) AskLasting(ctx context.Context, name string, q Question) (answer Answer, done func(),
	_ error) {
	a := c.audience
	select {
	case a.turn <- struct{}{}:
	case <-ctx.Done():
		return Answer{}, nil, context.Cause(ctx)
	}
	for {
		question, err := a.askLasting(ctx, name, q)
		if err != nil {
			<-a.turn
			return Answer{}, nil, err
		}
		closeQuestion := func() {
			_ = question.Close() // it fails if the task has ended
			a.questions.Done()
		}
		answer, err = a.awaitLasting(ctx, question)
		switch {
		case err == nil:
			return answer, func() { closeQuestion(); <-a.turn }, nil
		case errors.Is(err, errRefused): // the client of the call cannot ask; others may come
			closeQuestion()
		default:
			closeQuestion()
			<-a.turn
			return Answer{}, nil, err
		}
	}
}

// askLasting opens the question.
func (a *audience) askLasting(ctx context.Context, name string, q Question) (*run.Question, error) {
	s := a.run.Secrets()
	q.Message, q.Schema = shorten.Clip(s.String(q.Message), maxQuestion), s.JSON(q.Schema)
	question := &run.Question{Name: name, Message: q.Message, Check: q.check,
		Request: mcp.InputRequest{Method: "elicitation/create",
			Params: rawjson.Encode(mcp.ElicitParams{Message: q.Message, RequestedSchema: q.Schema})}}
	c := a.caller()
	question.Sent = c != nil && c.Era == rpc.Handshake && a.canDo("elicitation/create", nil) && !a.handedOver(c)
	a.mu.Lock()
	if a.end.IsSet() {
		a.mu.Unlock()
		return nil, tasks.ErrEnded
	}
	a.questions.Add(1)
	a.mu.Unlock()
	err := a.run.Ask(question)
	if err != nil {
		a.questions.Done()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}
	return question, err
}

// errRefused says that the client of a call that another process has made cannot ask.
var errRefused = errors.New("the client cannot ask its user")

// awaitLasting waits for the answer, wherever it comes from.
func (a *audience) awaitLasting(ctx context.Context, q *run.Question) (Answer, error) {
	var elicited chan json.RawMessage // nil: the client is not asked by a request, or has failed to answer it
	if q.Sent {
		asking, cancel := context.WithCancelCause(ctx)
		elicited = make(chan json.RawMessage, 1)
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			if a.current.Load().Await(asking) != nil {
				return
			}
			response, err := a.request(asking, q.Request.Method, a.related(q.Request.Params))
			if err == nil {
				elicited <- response
			}
		}()
		defer func() {
			cancel(errAnswered)
			<-asked // the client has been told that the question is withdrawn
		}()
	}
	for {
		var response json.RawMessage
		select {
		case response = <-elicited:
		case response = <-q.Answered():
		case why := <-q.Refused():
			return Answer{}, fmt.Errorf("%w: %w", errRefused, why)
		case <-a.end.Done():
			return Answer{}, tasks.ErrEnded
		case <-ctx.Done():
			return Answer{}, context.Cause(ctx)
		}
		if r, err := q.Read(response); err == nil {
			return Answer{Action: r.Action, Content: r.Content}, nil
		}
		elicited = nil // what the client has sent is no answer
	}
}
