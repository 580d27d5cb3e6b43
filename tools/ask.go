package tools

import (
	"context"
	"encoding/json"
	"errors"

	"runnel/rpc/mcp"
	"runnel/tasks"
)

// Question is what a tool asks the user of the client.
type Question struct {
	Message string
	// Schema of the answer's content: a JSON Schema object with properties of primitive types
	// (2025-06-18 client/elicitation, "Requested Schema").
	Schema json.RawMessage
}

// Answer is what the user did with a question.
type Answer struct {
	Action  mcp.ElicitAction
	Content json.RawMessage // with mcp.ElicitAccept: what the schema asked for
}

// ErrCannotAsk is what Ask returns when the client has no way to ask its user.
var ErrCannotAsk = errors.New("this client cannot ask its user: it does not support elicitation")

// Ask asks the user and waits for the answer, for as long as ctx lasts; meanwhile the task is input_required.
// It returns ErrCannotAsk at once if the client cannot ask.
func (c *Call) Ask(ctx context.Context, q Question) (Answer, error) {
	if c.ask == nil {
		return Answer{}, ErrCannotAsk
	}
	return c.ask(ctx, q)
}

// asker lets a call ask the client it came from by elicitation/create. Over stdio the question goes out at
// once, not only when tasks/result is called: some hosts only ever call tasks/get.
func asker(d *delivery, run *tasks.Run) func(context.Context, Question) (Answer, error) {
	c := d.caller
	if !c.Version.Elicitation || !c.Capabilities.AsksByForm() {
		return nil
	}
	return func(ctx context.Context, q Question) (Answer, error) {
		if err := d.await(ctx); err != nil {
			return Answer{}, err
		}
		if err := run.Move(mcp.TaskInputRequired, q.Message); err != nil {
			return Answer{}, err
		}
		params := mcp.ElicitParams{Message: q.Message, RequestedSchema: q.Schema}
		if run.HasHandle() {
			params.Meta = tasks.Related(run.ID())
		}
		var answer mcp.ElicitResult
		err := c.Request(ctx, "elicitation/create", params, &answer)
		if moved := run.Move(mcp.TaskWorking, ""); err == nil {
			err = moved
		}
		if err != nil {
			return Answer{}, err
		}
		return Answer{Action: answer.Action, Content: answer.Content}, nil
	}
}
