package view

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tools"
)

// mineParams name a call.
type mineParams struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

// mine implements view_mine.
func (v *view) mine(ctx context.Context, in *tools.Call, p mineParams) (any, error) {
	id, err := in.Recent(ctx, p.Tool, p.Arguments)
	return struct {
		TaskID string `json:"taskId,omitempty"`
	}{id}, err
}

// cancel implements view_cancel.
func (v *view) cancel(ctx context.Context, in *tools.Call, p taskParams) (any, error) {
	t, err := v.runner.Cancel(ctx, p.TaskID)
	if errors.Is(err, tasks.ErrEnded) {
		return nil, fmt.Errorf("the task has ended already: %s", t.Status)
	} else if err != nil {
		return nil, err
	}
	return v.show(ctx, in, &t, v.runner.Own()), nil
}

type answerParams struct {
	TaskID  string `json:"taskId"`
	Message string `json:"message"` // of the question, as the task's status shows it: another one may be open by now
	Yes     bool   `json:"yes"`
}

// answer implements view_answer. A person answers, and no model: only the page calls it.
func (v *view) answer(ctx context.Context, _ *tools.Call, p answerParams) (any, error) {
	followed, release, err := v.runner.Follow(ctx, p.TaskID)
	if err != nil {
		return nil, err
	}
	defer release()
	if followed == nil {
		return nil, errors.New("the task has ended: it waits for no answer")
	}
	question := followed.FirstForm()
	if question == nil {
		return nil, errors.New("the task has no question that can be answered here")
	}
	if tasks.Clip(question.Message) != p.Message {
		return nil, errors.New("the task asks something else by now: read it, and answer again")
	}
	answer := mcp.ElicitResult{Action: mcp.ElicitDecline}
	if p.Yes {
		answer = mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage("{}")}
	}
	encoded := rawjson.Encode(answer)
	if _, err := question.Read(encoded); err != nil {
		return nil, fmt.Errorf("yes is not enough, the answer %w: in a terminal, runnel tasks answer %s "+
			"takes it", err,
			p.TaskID)
	}
	return struct{}{}, question.Answer(ctx, encoded)
}

// tools implements view_tools: what can be run.
func (v *view) tools(_ context.Context, in *tools.Call, _ struct{}) (any, error) {
	type shownTool struct {
		Name        string          `json:"name"`
		Title       string          `json:"title,omitempty"`
		Description string          `json:"description,omitempty"`
		InputSchema json.RawMessage `json:"inputSchema"`
	}
	list := []shownTool{}
	for _, t := range in.Startables() {
		list = append(list, shownTool{t.Name, t.Title, t.Description, t.InputSchema})
	}
	slices.SortFunc(list, func(a, b shownTool) int { return cmp.Compare(a.Name, b.Name) })
	answer := map[string]any{"tools": list}
	if v.hosts != nil {
		hosts := v.hosts()
		answer["hosts"], answer["sessions"] = hosts.Installed, hosts.Sessions
	}
	return answer, nil
}

// run implements view_run.
func (v *view) run(ctx context.Context, in *tools.Call, p mineParams) (any, error) {
	run, err := in.Start(ctx, p.Tool, p.Arguments)
	if err != nil {
		return nil, err
	}
	return map[string]string{"taskId": run.ID()}, nil
}

// again implements view_again.
func (v *view) again(ctx context.Context, in *tools.Call, p taskParams) (any, error) {
	t, err := v.runner.Head(ctx, p.TaskID)
	switch {
	case err != nil:
		return nil, err
	case t.Arguments == nil:
		return nil, errors.New("the arguments of this task were not kept, so it cannot be run again: call " +
			"the tool with its arguments")
	}
	return v.run(ctx, in, mineParams{t.Tool, t.Arguments})
}
