package view

import (
	"cmp"
	"context"
	"errors"
	"time"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools"
)

const (
	// listPage is how many tasks view_tasks shows, unless the page asks for another number, up to
	// maxListPage.
	listPage    = 50
	maxListPage = 200
	// maxListedArguments is the length up to which a list shows arguments, in bytes.
	maxListedArguments = 2 << 10
	// historyRuns is how many runs view_history shows.
	historyRuns = 50
)

type tasksParams struct {
	Cursor string   `json:"cursor"` // the id of the last task of the page before
	Max    int      `json:"max"`
	IDs    []string `json:"ids"` // only these, as far as they exist
}

// tasks implements view_tasks.
func (v *view) tasks(ctx context.Context, in *tools.Call, p tasksParams) (any, error) {
	var page []tasks.Task
	more := false
	var err error
	if len(p.IDs) == 0 {
		page, more, err = v.runner.Last(ctx, cmp.Or(p.Max, listPage), p.Cursor,
			func(*tasks.Task) bool { return true })
		if err != nil {
			return nil, err
		}
	}
	for _, id := range p.IDs {
		t, err := v.runner.Head(ctx, id)
		if errors.Is(err, tasks.ErrNotFound) {
			continue
		} else if err != nil {
			return nil, err
		}
		page = append(page, t)
	}
	answer := struct {
		Tasks      []shownTask `json:"tasks"`
		NextCursor string      `json:"nextCursor,omitempty"`
	}{Tasks: []shownTask{}}
	own := v.runner.Own()
	for i := range page {
		shown := v.show(ctx, in, &page[i], own)
		if len(shown.Arguments) > maxListedArguments {
			shown.Arguments = nil
		}
		answer.Tasks = append(answer.Tasks, shown)
	}
	if more {
		answer.NextCursor = page[len(page)-1].ID
	}
	return answer, nil
}

type historyParams struct {
	Tool string `json:"tool"`
}

type pastRun struct {
	TaskID     string         `json:"taskId"`
	CreatedAt  time.Time      `json:"createdAt"`
	DurationMs int64          `json:"durationMs"`
	Status     mcp.TaskStatus `json:"status"`
}

// history implements view_history, newest first.
func (v *view) history(ctx context.Context, _ *tools.Call, p historyParams) (any, error) {
	last, _, err := v.runner.Last(ctx, historyRuns, "", func(t *tasks.Task) bool { return t.Tool == p.Tool })
	if err != nil {
		return nil, err
	}
	runs := []pastRun{}
	for _, t := range last {
		runs = append(runs, pastRun{t.ID, t.CreatedAt.UTC(), duration(&t).Milliseconds(), t.Status})
	}
	return map[string][]pastRun{"runs": runs}, nil
}
