package view

import (
	"context"
	"slices"
	"time"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools"
)

const (
	// listPage is how many tasks view_tasks shows at once.
	listPage = 50
	// maxListedArguments is the length up to which a list shows arguments, in bytes.
	maxListedArguments = 2 << 10
	// historyRuns is how many runs view_history shows.
	historyRuns = 50
)

type tasksParams struct {
	Cursor string `json:"cursor"` // the id of the last task of the page before
	Tool   string `json:"tool"`
	Status string `json:"status"` // running or ended
}

// tasks implements view_tasks.
func (v *view) tasks(ctx context.Context, in *tools.Call, p tasksParams) (any, error) {
	page, more, err := v.runner.Last(ctx, listPage, p.Cursor, func(t *tasks.Task) bool {
		return (p.Tool == "" || t.Tool == p.Tool) && (p.Status == "" || t.Status.Terminal() == (p.Status == "ended"))
	})
	if err != nil {
		return nil, err
	}
	answer := struct {
		Tasks      []shownTask `json:"tasks"`
		NextCursor string      `json:"nextCursor,omitempty"`
		Tools      []string    `json:"tools"`
	}{[]shownTask{}, "", in.Startables()}
	own := v.runner.Own()
	for i := range page {
		shown := v.show(ctx, in, &page[i], own)
		if len(shown.Arguments) > maxListedArguments {
			shown.Arguments = nil
		}
		answer.Tasks, answer.Tools = append(answer.Tasks, shown), append(answer.Tools, shown.Tool)
	}
	if more {
		answer.NextCursor = page[len(page)-1].ID
	}
	slices.Sort(answer.Tools)
	answer.Tools = slices.Compact(answer.Tools)
	return answer, nil
}

type historyParams struct {
	Tool string `json:"tool"`
}

type run struct {
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
	runs := []run{}
	for _, t := range last {
		runs = append(runs, run{t.ID, t.CreatedAt.UTC(), duration(&t).Milliseconds(), t.Status})
	}
	return map[string][]run{"runs": runs}, nil
}
