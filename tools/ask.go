package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"runnel/rpc"
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

// asking is how a call asks the client it came from, by elicitation/create. Over stdio the question goes out at
// once, not only when tasks/result is called: some hosts only ever call tasks/get.
type asking struct {
	d    *delivery
	run  *tasks.Run
	turn chan struct{} // holds an element while a question is open: a task has one status

	mu    sync.Mutex
	ended bool
	end   chan struct{}  // closed when the task ends
	open  sync.WaitGroup // questions
}

func newAsking(d *delivery, run *tasks.Run) *asking {
	return &asking{d: d, run: run, turn: make(chan struct{}, 1), end: make(chan struct{})}
}

// ask returns how the tool may ask, nil if the client cannot be asked.
func (a *asking) ask() func(context.Context, Question) (Answer, error) {
	c := a.d.caller
	if !c.Version.Elicitation || !c.Capabilities.AsksByForm() {
		return nil
	}
	return func(ctx context.Context, q Question) (Answer, error) {
		if err := a.d.await(ctx); err != nil {
			return Answer{}, err
		}
		select {
		case a.turn <- struct{}{}:
			defer func() { <-a.turn }()
		case <-ctx.Done():
			return Answer{}, context.Cause(ctx)
		}
		return a.put(ctx, q)
	}
}

// put puts a question to the user.
func (a *asking) put(ctx context.Context, q Question) (Answer, error) {
	a.mu.Lock()
	if a.ended {
		a.mu.Unlock()
		return Answer{}, tasks.ErrEnded
	}
	a.open.Add(1)
	a.mu.Unlock()
	if err := a.run.Move(mcp.TaskInputRequired, q.Message); err != nil {
		a.open.Done()
		return Answer{}, err
	}
	answer, err := a.request(ctx, q)
	a.open.Done()
	if moved := a.run.Move(mcp.TaskWorking, ""); err == nil {
		err = moved
	}
	return answer, err
}

func (a *asking) request(ctx context.Context, q Question) (Answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-a.end:
			cancel(tasks.ErrEnded)
		case <-ctx.Done():
		}
	}()
	c := a.d.caller
	params := mcp.ElicitParams{Message: q.Message, RequestedSchema: q.Schema}
	if a.run.HasHandle() && c.Version.Tasks {
		params.Meta = tasks.Related(a.run.ID())
	}
	var answer mcp.ElicitResult
	err := c.Request(ctx, "elicitation/create", params, &answer)
	var refused *rpc.Error
	if errors.As(err, &refused) {
		// The client's error says nothing of the call that it made: it is the tool's to deal with.
		err = fmt.Errorf("the client could not ask its user: %s", refused.Message)
	}
	return Answer{Action: answer.Action, Content: answer.Content}, err
}

// withdraw takes open questions back and lets no new ones through; when it returns the client has been told
// of it, as far as it reads.
func (a *asking) withdraw() {
	a.mu.Lock()
	if !a.ended {
		a.ended = true
		close(a.end)
	}
	a.mu.Unlock()
	a.open.Wait()
}
